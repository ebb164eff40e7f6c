#pragma once

#include "ops/linear.h"

namespace dptrain::ops::cuda {

Tensor linear_forward(const Tensor& x, const Tensor& weight, const Tensor& bias, bool relu);
Tensor linear_backward_data(const Tensor& weight, const Tensor& output_gradient, const Tensor& sum);
void linear_backward_weights(const Tensor& x, const Tensor& output_gradient, const LinearWeightGradients& gradients);

}  // namespace dptrain::ops::cuda
