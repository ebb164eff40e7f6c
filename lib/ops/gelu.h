#pragma once

#include "tensor/tensor.h"

namespace dptrain::ops {

/// x * (1 + erf(x / sqrt 2)) / 2, in any layout: the exact GELU (Hendrycks and Gimpel, 2016), not its approximation by
/// tanh. f32 is right to 1e-6 of its own size wherever that is no denormal (on a GPU to 2e-5 at x = -12).
Tensor gelu_forward(const Tensor& x);

/// The output's gradient times the slope at `x`: P(X < x) + x * exp(-x^2 / 2) / sqrt(2 pi). Both in one shape; returned
/// in the layout of x.
Tensor gelu_backward(const Tensor& x, const Tensor& output_gradient);

}  // namespace dptrain::ops
