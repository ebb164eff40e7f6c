#pragma once

#include "tensor/tensor.h"

namespace dptrain::ops {

/// Computes to += share * (from - to), one step of an exponential moving average. Both have the same shape and layout.
void approach(const Tensor& to, const Tensor& from, float share);

}  // namespace dptrain::ops
