#pragma once

#include "tensor/tensor.h"

namespace dptrain::ops::cuda {

void delay(const Tensor& nanoseconds);

}  // namespace dptrain::ops::cuda
