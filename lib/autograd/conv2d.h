#pragma once

#include "autograd/variable.h"
#include "ops/conv2d.h"

namespace dptrain::autograd {

/// ops::conv2d_forward with gradients. `bias` may be undefined.
Variable conv2d(const Variable& x, const Variable& weight, const Variable& bias, const ops::Conv2dOptions& options);

}  // namespace dptrain::autograd
