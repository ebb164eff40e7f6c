#pragma once

#include "ops/lamb.h"
#include "ops/lars.h"

namespace dptrain::ops::cpu {

// Norms of tensors and the optimizers that use them, divided among the device's threads by chunks.

void tensor_squares(const Tensor& first, const Tensor& second, const TensorTable& table, const Tensor& squares);
void lars_step(const Tensor& weights, const Tensor& gradients, const Tensor& velocity, const TensorTable& table,
               const Tensor& squares, const LarsOptions& options);
void lamb_measure(const Tensor& weights, const Tensor& gradients, const AdamMoments& moments, const TensorTable& table,
                  const Tensor& squares, const LambOptions& options);
void lamb_step(const Tensor& weights, const AdamMoments& moments, const TensorTable& table, const Tensor& squares,
               const LambOptions& options);

}  // namespace dptrain::ops::cpu
