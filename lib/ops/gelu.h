#pragma once

#include "tensor/tensor.h"

namespace dptrain::ops {

/// x * (1 + erf(x / sqrt 2)) / 2, in any layout: the exact GELU (Hendrycks and Gimpel, 2016), not its approximation by
/// tanh. f32 is right to 1e-6 of its own size wherever that is no denormal (on a GPU to 2e-5 at x = -12).
Tensor gelu_forward(const Tensor& x);

/// The output's gradient times the slope at `x`: P(X < x) + x * exp(-x^2 / 2) / sqrt(2 pi). Both in one shape; returned
/// in the layout of x.
Tensor gelu_backward(const Tensor& x, const Tensor& output_gradient);

/// Where the gradient of a bias is written, f32 [O]; with `accumulate` it is added to what stands there.
struct BiasGradient {
  Tensor target;
  bool accumulate = false;
};
/// gelu_backward of x: [..., O] in the plain layout, to which a bias was added, and the bias's gradient: the sums of
/// the result's rows. On a GPU both are one pass over memory. cuBLASLt's epilogues can't do it: their GELU is the
/// approximation by tanh.
Tensor gelu_backward(const Tensor& x, const Tensor& output_gradient, const BiasGradient& bias);
/// Whether that is less work on this device than leaving the bias to `linear_backward_weights`.
bool gelu_sums_up_bias(const Device& device);

}  // namespace dptrain::ops
