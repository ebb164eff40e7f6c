#pragma once

#include "tensor/tensor.h"

namespace dptrain::ops {

/// Where a bias's gradient is written, f32 [O]. With `accumulate` it is added to the values there.
struct BiasSink {
  Tensor target;
  bool accumulate = false;
};

/// Returns GELU's activation_backward for x: [..., O] in the plain layout, and writes the sums of the result's rows to
/// `bias`, the gradient of a bias that was added to x. On a GPU both take one pass over memory. cuBLASLt's epilogues
/// can't do this, since their GELU is the tanh approximation.
Tensor gelu_backward(const Tensor& x, const Tensor& output_gradient, const BiasSink& bias);
/// Whether gelu_backward with a bias is less work on this device than leaving the bias to `linear_backward_weights`.
bool gelu_sums_up_bias(const Device& device);

}  // namespace dptrain::ops
