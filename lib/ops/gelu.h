#pragma once

#include "tensor/tensor.h"

namespace dptrain::ops {

/// Where the gradient of a bias is written, f32 [O]; with `accumulate` it is added to what stands there.
struct BiasSink {
  Tensor target;
  bool accumulate = false;
};

/// activation_backward of GELU of x: [..., O] in the plain layout, to which a bias was added, and the bias's gradient:
/// the sums of the result's rows. On a GPU both are one pass over memory. cuBLASLt's epilogues can't do it: their GELU
/// is the approximation by tanh.
Tensor gelu_backward(const Tensor& x, const Tensor& output_gradient, const BiasSink& bias);
/// Whether that is less work on this device than leaving the bias to `linear_backward_weights`.
bool gelu_sums_up_bias(const Device& device);

}  // namespace dptrain::ops
