#pragma once

#include "tensor/tensor.h"

namespace dptrain::ops {

/// The same logical values in another layout; `x` itself where it has that layout already.
Tensor reorder(const Tensor& x, Layout layout, MemoryPurpose purpose = MemoryPurpose::activations);

/// The same with another element type, rounded to nearest where that holds less; `x` itself where both are as asked.
/// f32 and bf16, and on a GPU f16.
Tensor converted(const Tensor& x, const TensorOptions& options);

/// Writes the logical values of `from` into `to`, whatever the two layouts and element types. Same shape and device.
void reorder_into(const Tensor& from, const Tensor& to);

}  // namespace dptrain::ops
