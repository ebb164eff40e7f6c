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
  /// bf16, or on a GPU f16, in the shape of the weights, written with their new values.
  Tensor copy = {};
  UpdateControl control = {};
  UpdateGroups groups = {};  ///< of the weights; the factors are of learning_rate and weight_decay
};

/// One step of stochastic gradient descent over all weights at once, as PyTorch defines it:
///   g = gradient + weight_decay * weight;  velocity = momentum * velocity + g
///   weight -= learning_rate * (nesterov ? g + momentum * velocity : velocity)
/// weights, gradients: flat and of equal length; velocity: the same, or undefined where momentum is 0. A gradient
/// factor is multiplied into `gradients` on CPU workers.
void sgd_step(const Tensor& weights, const Tensor& gradients, const Tensor& velocity, const SgdOptions& options);

}  // namespace dptrain::ops
