#pragma once

#include "tensor/tensor.h"

namespace dptrain::ops::cuda {

Tensor largest_magnitude(const Tensor& values);
void scale_to_f16(const Tensor& values, const Tensor& bound, const Tensor& to);
void scale_from_f16(const Tensor& halves, const Tensor& bound, const Tensor& to);

}  // namespace dptrain::ops::cuda
