#pragma once

#include "tensor/tensor_form.h"

namespace dptrain::ops {

/// y with x added to its first channels: y + x padded with channels of zeros, as PyramidNet's shortcuts widen (Han, Kim
/// and Kim, 2017). y: [N, C + P, H, W]; x: [N, C, H, W]; in any layouts of images. Returns y's shape and layout.
Tensor add_padded(const Tensor& y, const Tensor& x);

/// The gradient with respect to x, in the layout of x: the first channels of the output's gradient. That of y is the
/// output's gradient itself.
Tensor add_padded_backward(const TensorForm& x, const Tensor& output_gradient);

}  // namespace dptrain::ops
