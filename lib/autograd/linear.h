#pragma once

#include "autograd/bias_gradient.h"

namespace dptrain::autograd {

struct LinearOptions {
  bool relu = false;  ///< max(0, .) of the output, in the same pass
  BiasGradient bias_gradient = BiasGradient::summed;
};

/// ops::linear_forward with gradients, over the last dimension of x: [..., I] -> [..., O]. `bias` may be undefined.
Variable linear(const Variable& x, const Variable& weight, const Variable& bias, const LinearOptions& options = {});

/// gelu(linear(x, weight, bias)). On devices where it is less work, the backward pass of GELU also sums the gradient of
/// the bias. `bias` may be undefined.
Variable linear_gelu(const Variable& x, const Variable& weight, const Variable& bias);

}  // namespace dptrain::autograd
