#pragma once

#include "tensor/tensor.h"

namespace dptrain::ops::cuda {

Tensor sum_of_squares(const Tensor& gradients);
Tensor clip_factor_of(const Tensor& squares, double most, const Tensor& factor);

}  // namespace dptrain::ops::cuda
