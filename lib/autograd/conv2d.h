#pragma once

#include "autograd/variable.h"
#include "ops/conv2d_max_pool.h"

namespace dptrain::autograd {

/// What the gradient of a convolution's bias takes.
enum class BiasGradient {
  summed,  ///< a pass over the output's gradient
  zero,    ///< nothing: whoever reads the output subtracts its mean over samples and positions
};

/// ops::conv2d_forward with gradients. `bias` may be undefined.
Variable conv2d(const Variable& x, const Variable& weight, const Variable& bias, const ops::Conv2dOptions& options,
                BiasGradient bias_gradient = BiasGradient::summed);

/// max_pool2d of conv2d, whose outputs nobody else reads: one operator where ops::convolves_and_pools says so.
Variable conv2d_max_pool(const Variable& x, const Variable& weight, const Variable& bias,
                         const ops::Conv2dMaxPoolOptions& options);

}  // namespace dptrain::autograd
