#pragma once

#include "ops/tensor_table.h"

namespace dptrain::ops {

/// Adds the squares of each tensor's values in two flat buffers (f32, of equal length) to `squares`; see
/// no_tensor_squares().
void tensor_squares(const Tensor& first, const Tensor& second, const TensorTable& table, const Tensor& squares);

}  // namespace dptrain::ops
