#pragma once

#include "tensor/tensor.h"

namespace dptrain::ops {

/// Returns the same logical values in another layout; `x` itself if it has that layout already.
Tensor reorder(const Tensor& x, Layout layout, MemoryPurpose purpose = MemoryPurpose::activations);

/// Returns the same logical values with the element type and layout of `options`, rounded to nearest if the type is
/// less precise. Returns `x` itself if both match already. Types are f32 and bf16, and on a GPU f16.
Tensor converted(const Tensor& x, const TensorOptions& options);

/// Writes the logical values of `from` to `to`, whatever their layouts and element types. Both have the same shape and
/// device.
void reorder_into(const Tensor& from, const Tensor& to);

}  // namespace dptrain::ops
