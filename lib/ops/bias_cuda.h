#pragma once

#include "tensor/tensor.h"

namespace dptrain::ops::cuda {

/// Computes y += bias in every row, then max(0, .) if `relu`. y: [N, C, H, W] in nhwc, or [N, C]; bias: [C]; both of
/// one type.
void add_bias(const Tensor& y, const Tensor& bias, bool relu);

/// Computes the gradient with respect to the bias, which is the sum of `gradient`'s rows. Writes it to `bias`, f32 [C],
/// or adds it there if `accumulate`.
void bias_gradient(const Tensor& gradient, const Tensor& bias, bool accumulate);

/// gradient = incoming * GELU's slope at x. Also computes the bias_gradient of the result, from the numbers before they
/// are rounded. x, incoming, gradient: [N, C], of one type.
void gelu_bias_backward(const Tensor& x, const Tensor& incoming, const Tensor& gradient, const Tensor& bias,
                        bool accumulate);

}  // namespace dptrain::ops::cuda
