#pragma once

#include "tensor/tensor.h"

namespace dptrain::ops::cuda {

// All tensors of a call have the same layout.

/// sum = y, with x added to its first channels.
void add_padded(const Tensor& y, const Tensor& x, const Tensor& sum);
/// x = the first channels of y.
void first_channels(const Tensor& y, const Tensor& x);

}  // namespace dptrain::ops::cuda
