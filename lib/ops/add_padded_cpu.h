#pragma once

#include "tensor/tensor.h"

namespace dptrain::ops::cpu {

// All tensors of a call have the same layout.

/// sum = y, with x added to its first channels.
void add_padded(const Tensor& y, const Tensor& x, const Tensor& sum);
/// x = the first channels of y.
void first_channels(const Tensor& y, const Tensor& x);
/// x += the first channels of y.
void add_first_channels_into(const Tensor& x, const Tensor& y);

}  // namespace dptrain::ops::cpu
