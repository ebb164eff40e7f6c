#pragma once

#include "tensor/tensor.h"

namespace dptrain::ops {

/// Returns y = x * weight^T + bias, or max(0, y) with `relu`. x: [N, I]; weight: [O, I]; bias: [O] or undefined. The
/// result is [N, O].
Tensor linear_forward(const Tensor& x, const Tensor& weight, const Tensor& bias, bool relu = false);

/// Returns the gradient with respect to x: [N, I]. If `sum` is defined, with that shape and type, the gradient is added
/// to it and `sum` is returned.
Tensor linear_backward_data(const Tensor& weight, const Tensor& output_gradient, const Tensor& sum = {});

/// Where the gradients of weight and bias (if defined) are written. With `accumulate_*` they are added to the values
/// there.
struct LinearWeightGradients {
  Tensor weight;
  Tensor bias;
  bool accumulate_weight = false;
  bool accumulate_bias = false;
};
void linear_backward_weights(const Tensor& x, const Tensor& output_gradient, const LinearWeightGradients& gradients);

/// Computes the gradient of the bias alone, for a layer whose weight isn't trained.
void linear_backward_bias(const Tensor& output_gradient, const Tensor& bias, bool accumulate);

}  // namespace dptrain::ops
