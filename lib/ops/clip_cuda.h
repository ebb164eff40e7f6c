#pragma once

#include "tensor/tensor.h"

namespace dptrain::ops::cuda {

Tensor clip_factor(const Tensor& gradients, double most, const Tensor& factor);
void sum_of_squares(const Tensor& gradients, const Tensor& sum);
Tensor clip_factor_of_ranges(const Tensor& sums, double most, const Tensor& factor);

}  // namespace dptrain::ops::cuda
