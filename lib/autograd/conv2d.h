#pragma once

#include "autograd/bias_gradient.h"
#include "ops/conv2d_max_pool.h"

namespace dptrain::autograd {

/// ops::conv2d_forward with gradients. `bias` may be undefined.
Variable conv2d(const Variable& x, const Variable& weight, const Variable& bias, const ops::Conv2dOptions& options,
                BiasGradient bias_gradient = BiasGradient::summed);

/// max_pool2d(conv2d(x, weight, bias)), if nothing else reads the output of the convolution. It is one operator if
/// ops::convolves_and_pools allows that.
Variable conv2d_max_pool(const Variable& x, const Variable& weight, const Variable& bias,
                         const ops::Conv2dMaxPoolOptions& options);

}  // namespace dptrain::autograd
