#pragma once

#include "tensor/tensor.h"

namespace dptrain::ops {

/// Makes the device idle for `nanoseconds` (i64 [1]); work that it is given afterwards waits.
void delay(const Tensor& nanoseconds);

}  // namespace dptrain::ops
