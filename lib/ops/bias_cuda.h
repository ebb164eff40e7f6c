#pragma once

#include "tensor/tensor.h"

namespace dptrain::ops::cuda {

/// y += bias at every row, then max(0, .) with `relu`. y: [N, C, H, W] in nhwc or [N, C]; bias: [C]; of one type.
void add_bias(const Tensor& y, const Tensor& bias, bool relu);

/// The gradient with respect to the bias: the sum of `gradient`'s rows, written to f32 [C] or added to it.
void bias_gradient(const Tensor& gradient, const Tensor& bias, bool accumulate);

/// gradient = incoming times GELU's slope at x, and its bias_gradient with it, from the numbers before they are
/// rounded. x, incoming, gradient: [N, C], of one type.
void gelu_bias_backward(const Tensor& x, const Tensor& incoming, const Tensor& gradient, const Tensor& bias,
                        bool accumulate);

}  // namespace dptrain::ops::cuda
