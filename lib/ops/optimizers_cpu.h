#pragma once

#include "ops/adam.h"
#include "ops/sgd.h"

namespace dptrain::ops::cpu {

// The optimizers' steps and gradient clipping, divided among the device's threads.

Tensor clip_factor(const Tensor& squares, double most, const Tensor& factor);
void sgd_step(const Tensor& weights, const Tensor& gradients, const Tensor& velocity, const SgdOptions& options);
void adam_step(const Tensor& weights, const Tensor& gradients, const AdamMoments& moments, const AdamOptions& options);

}  // namespace dptrain::ops::cpu
