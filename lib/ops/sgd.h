#pragma once

#include "tensor/tensor.h"

namespace dptrain::ops {

/// What an update on a GPU reads when it runs rather than when it is given to the GPU, so that a recorded step can be
/// run again with other values. Undefined tensors stand for nothing.
struct UpdateControl {
  Tensor learning_rate;    ///< f32 [1], in place of the one given
  Tensor gradient_factor;  ///< f32 [1], what gradients are multiplied by first
  Tensor skip;             ///< i32 [1], not 0 where nothing is to change
};

struct SgdOptions {
  double learning_rate = 0;
  double momentum = 0;
  double weight_decay = 0;
  bool nesterov = false;
  /// Of GPUs: bf16 or f16 in the shape of the weights, written with their new values.
  Tensor copy = {};
  UpdateControl control = {};
};

/// One step of stochastic gradient descent over all weights at once, as PyTorch defines it:
///   g = gradient + weight_decay * weight;  velocity = momentum * velocity + g
///   weight -= learning_rate * (nesterov ? g + momentum * velocity : velocity)
/// weights, gradients: flat and of equal length; velocity: the same, or undefined where momentum is 0.
void sgd_step(const Tensor& weights, const Tensor& gradients, const Tensor& velocity, const SgdOptions& options);

}  // namespace dptrain::ops
