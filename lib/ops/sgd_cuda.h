#pragma once

#include "ops/sgd.h"

namespace dptrain::ops::cuda {

void sgd_step(const Tensor& weights, const Tensor& gradients, const Tensor& velocity, const SgdOptions& options);

}  // namespace dptrain::ops::cuda
