#pragma once

#include "ops/lamb.h"

namespace dptrain::ops::cuda {

void lamb_measure(const Tensor& weights, const Tensor& gradients, const AdamMoments& moments, const TensorTable& table,
                  const Tensor& squares, const LambOptions& options);
void lamb_step(const Tensor& weights, const AdamMoments& moments, const TensorTable& table, const Tensor& squares,
               const LambOptions& options);

}  // namespace dptrain::ops::cuda
