#pragma once

#include "ops/update_control.h"
#include "ops/update_groups.h"
#include "tensor/tensor.h"

namespace dptrain::ops {

struct SgdOptions {
  double learning_rate = 0;
  double momentum = 0;
  double weight_decay = 0;
  bool nesterov = false;
  /// Receives the updated weights in half precision: bf16, or f16 on a GPU, in the shape of the weights.
  Tensor copy = {};
  UpdateControl control = {};
  UpdateGroups groups = {};  ///< of the weights; the factors multiply learning_rate and weight_decay
};

/// One step of stochastic gradient descent over all weights at once, as PyTorch defines it:
///   g = gradient + weight_decay * weight;  velocity = momentum * velocity + g
///   weight -= learning_rate * (nesterov ? g + momentum * velocity : velocity)
/// weights, gradients: flat and of equal length; velocity: likewise, or undefined if momentum is 0. CPU workers
/// multiply a gradient factor into `gradients`.
void sgd_step(const Tensor& weights, const Tensor& gradients, const Tensor& velocity, const SgdOptions& options);

}  // namespace dptrain::ops
