#pragma once

#include "ops/adam.h"

namespace dptrain::ops::cuda {

void adam_step(const Tensor& weights, const Tensor& gradients, const AdamMoments& moments, const AdamOptions& options);

}  // namespace dptrain::ops::cuda
