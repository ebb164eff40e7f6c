#pragma once

#include "tensor/tensor.h"

namespace dptrain::ops::cuda {

Tensor clip_factor(const Tensor& squares, double most, const Tensor& factor);

}  // namespace dptrain::ops::cuda
