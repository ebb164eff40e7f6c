#pragma once

#include "tensor/tensor.h"

namespace dptrain::ops::cuda {

void take_up_residual(const Tensor& residual, const Tensor& gradients, const Tensor& scale);
void leave_residual(const Tensor& residual, const Tensor& sent, const Tensor& scale);

}  // namespace dptrain::ops::cuda
