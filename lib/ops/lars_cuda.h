#pragma once

#include "ops/lars.h"

namespace dptrain::ops::cuda {

void lars_step(const Tensor& weights, const Tensor& gradients, const Tensor& velocity, const TensorTable& table,
               const Tensor& squares, const LarsOptions& options);

}  // namespace dptrain::ops::cuda
