#pragma once

#include "tensor/tensor.h"

namespace dptrain::ops {

// Images of fewer channels beside such of more, as PyramidNet's shortcuts widen (Han, Kim and Kim, 2017): y is
// [N, C + P, H, W], x is [N, C, H, W], in any layouts of images.

/// y with x added to its first channels. Returns y's shape and layout.
Tensor add_padded(const Tensor& y, const Tensor& x);

/// The first channels of y, of shape `x`: of the gradient of such a sum, the gradient of x. That of y is it itself.
/// Returns y's layout.
Tensor first_channels(const Tensor& y, const Shape& x);

}  // namespace dptrain::ops
