#pragma once

#include <cstdint>

#include "data/batch_part.h"
#include "tensor/tensor.h"

namespace dptrain::parallel {

/// The labels of a part of images and then their bytes, in whole i32s, as a device gets them that has no copy of the
/// data set.
int64_t count_image_numbers(const BatchPart& part);
/// Writes them from `out` on. Returns what follows.
int32_t* write_image_numbers(const BatchPart& part, int32_t* out);

/// The same on a device.
struct ImageBytes {
  Tensor pixels;  ///< u8 [N, C, H, W]
  Tensor labels;  ///< i32 [N]
};

/// `numbers`: i32 [count_image_numbers(part)], those of `part`.
ImageBytes cut_image_numbers(const Tensor& numbers, const BatchPart& part);

}  // namespace dptrain::parallel
