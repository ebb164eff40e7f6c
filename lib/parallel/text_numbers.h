#pragma once

#include <cstdint>
#include <vector>

#include "data/batch_part.h"
#include "nn/text_inputs.h"
#include "tensor/tensor.h"

namespace dptrain::parallel {

/// All numbers of a part of text, one after the other, as a device gets them at once; none of a part of images.
std::vector<int32_t> text_numbers(const BatchPart& part);
int64_t count_text_numbers(const BatchPart& part);
/// Writes them from `out` on. Returns what follows.
int32_t* write_text_numbers(const BatchPart& part, int32_t* out);

/// The same on a device, cut into what a model reads and what its outputs are compared with.
struct TextOnDevice {
  Tensor tokens;  ///< i32 [N, S]
  nn::TextInputs inputs;
  std::vector<Tensor> targets;  ///< i32 [rows] of each output
};

/// `numbers`: i32 [count_text_numbers(part)], those of `part`.
TextOnDevice cut_text(const Tensor& numbers, const BatchPart& part);

/// Samples [begin, end) of a part: of text all of it, of images their targets and numbers.
BatchPart share_of(const BatchPart& part, int64_t begin, int64_t end);

}  // namespace dptrain::parallel
