#pragma once

#include <cstdint>

#include "data/batch_part.h"
#include "tensor/tensor.h"

namespace dptrain::parallel {

/// Counts the i32 numbers that hold a part's labels followed by its image bytes. A device that has no copy of the data
/// set gets its images in this form.
int64_t count_image_numbers(const BatchPart& part);
/// Writes these numbers from `out` on. Returns the end of what it wrote.
int32_t* write_image_numbers(const BatchPart& part, int32_t* out);

/// The images and labels of such numbers, on a device.
struct ImageBytes {
  Tensor pixels;  ///< u8 [N, C, H, W]
  Tensor labels;  ///< i32 [N]
};

/// Returns the images and labels in `numbers`. `numbers`: i32 [count_image_numbers(part)], written for `part`.
ImageBytes cut_image_numbers(const Tensor& numbers, const BatchPart& part);

}  // namespace dptrain::parallel
