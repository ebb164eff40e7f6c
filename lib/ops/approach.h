#pragma once

#include "tensor/tensor.h"

namespace dptrain::ops {

/// to += share * (from - to), of equal shape and layout: one step of an exponential moving average.
void approach(const Tensor& to, const Tensor& from, float share);

}  // namespace dptrain::ops
