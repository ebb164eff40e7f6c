#pragma once

#include "tensor/tensor.h"

namespace dptrain::ops {

/// The same logical values in another layout; `x` itself where it has that layout already. f32.
Tensor reorder(const Tensor& x, Layout layout, MemoryPurpose purpose = MemoryPurpose::activations);

/// Writes the logical values of `from` into `to`, whatever the two layouts. Same shape, f32, same device.
void reorder_into(const Tensor& from, const Tensor& to);

}  // namespace dptrain::ops
