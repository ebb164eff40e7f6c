#pragma once

#include "tensor/tensor.h"

namespace dptrain::ops::cpu {

void add_squares(const Tensor& values, const Tensor& sum);

}  // namespace dptrain::ops::cpu
