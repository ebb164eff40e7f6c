#pragma once

#include "tensor/tensor.h"

namespace dptrain::ops {

// Sums of images with different numbers of channels, for the shortcuts of PyramidNet (Han, Kim and Kim, 2017). y is
// [N, C + P, H, W] and x is [N, C, H, W], in any layouts of images.

/// Returns y with x added to its first channels, in y's shape and layout.
Tensor add_padded(const Tensor& y, const Tensor& x);

/// Returns the first channels of y in shape `x` and y's layout. If y is the gradient of add_padded's result, this is
/// the gradient of x; the gradient of add_padded's y is that gradient itself.
Tensor first_channels(const Tensor& y, const Shape& x);

}  // namespace dptrain::ops
