#pragma once

#include "tensor/tensor.h"

namespace dptrain::ops {

/// The device does nothing for so many nanoseconds (i64 [1]), and what it is given after waits.
void delay(const Tensor& nanoseconds);

}  // namespace dptrain::ops
