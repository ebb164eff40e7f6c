#pragma once

#include "autograd/variable.h"

namespace dptrain::autograd {

/// ops::linear_forward with gradients, of the last dimension of x: [..., I] -> [..., O]. `bias` may be undefined.
Variable linear(const Variable& x, const Variable& weight, const Variable& bias, bool relu = false);

}  // namespace dptrain::autograd
