#pragma once

#include <cstdint>
#include <vector>

#include "data/batch_part.h"
#include "nn/text_inputs.h"
#include "tensor/tensor.h"

namespace dptrain::parallel {

/// All numbers of a part of text, one after the other, as they are sent to a device; empty for a part of images.
std::vector<int32_t> text_numbers(const BatchPart& part);
int64_t count_text_numbers(const BatchPart& part);
/// Writes the numbers at `out`. Returns the address after them.
int32_t* write_text_numbers(const BatchPart& part, int32_t* out);

/// A text's numbers on a device, cut into the model's inputs and the targets of its outputs.
struct TextOnDevice {
  Tensor tokens;  ///< i32 [N, S]
  nn::TextInputs inputs;
  std::vector<Tensor> targets;  ///< i32 [rows], by output
};

/// `numbers`: i32 [count_text_numbers(part)], the numbers of `part`.
TextOnDevice cut_text(const Tensor& numbers, const BatchPart& part);

/// Samples [begin, end) of a part. For text, everything of these samples; for images, only their targets and sample
/// ids.
BatchPart share_of(const BatchPart& part, int64_t begin, int64_t end);

}  // namespace dptrain::parallel
