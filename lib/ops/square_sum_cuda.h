#pragma once

#include "tensor/tensor.h"

namespace dptrain::ops::cuda {

void add_squares(const Tensor& values, const Tensor& sum);

}  // namespace dptrain::ops::cuda
