#pragma once

#include "autograd/variable.h"

namespace dptrain::autograd {

/// ops::linear_forward with gradients, of the last dimension of x: [..., I] -> [..., O]. `bias` may be undefined.
Variable linear(const Variable& x, const Variable& weight, const Variable& bias, bool relu = false);

/// gelu(linear(x, weight, bias)), whose backward takes the bias's gradient, if there is one, where GELU's is computed
/// if that is less work.
Variable linear_gelu(const Variable& x, const Variable& weight, const Variable& bias);

}  // namespace dptrain::autograd
