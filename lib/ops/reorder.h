#pragma once

#include "tensor/tensor.h"

namespace dptrain::ops {

/// The same logical values in another layout; `x` itself where it has that layout already.
Tensor reorder(const Tensor& x, Layout layout, MemoryPurpose purpose = MemoryPurpose::activations);

/// The same with another element type; `x` itself where both are as asked. On a CPU worker all is f32.
Tensor converted(const Tensor& x, const TensorOptions& options);

/// Writes the logical values of `from` into `to`, whatever the two layouts and, on a GPU, element types. Same shape and
/// device.
void reorder_into(const Tensor& from, const Tensor& to);

}  // namespace dptrain::ops
