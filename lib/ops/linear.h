#pragma once

#include "tensor/tensor.h"

namespace dptrain::ops {

/// y = x * weight^T + bias, and max(0, y) with `relu`. x: [N, I]; weight: [O, I]; bias: [O] or undefined. Returns [N,
/// O].
Tensor linear_forward(const Tensor& x, const Tensor& weight, const Tensor& bias, bool relu = false);

/// The gradient with respect to x: [N, I]. Where `sum` is defined, of that shape and type, it is added to it, and that
/// is returned.
Tensor linear_backward_data(const Tensor& weight, const Tensor& output_gradient, const Tensor& sum = {});

/// Where the gradients with respect to weight and, where it is defined, bias are written; with `accumulate_*` they are
/// added to what stands there.
struct LinearWeightGradients {
  Tensor weight;
  Tensor bias;
  bool accumulate_weight = false;
  bool accumulate_bias = false;
};
void linear_backward_weights(const Tensor& x, const Tensor& output_gradient, const LinearWeightGradients& gradients);

/// The bias's alone: of a layer whose weight isn't trained.
void linear_backward_bias(const Tensor& output_gradient, const Tensor& bias, bool accumulate);

}  // namespace dptrain::ops
