#pragma once

#include "ops/update_control.h"
#include "ops/update_groups.h"
#include "tensor/tensor.h"

namespace dptrain::ops {

/// Adam's state for each weight, flat like the weights.
struct AdamMoments {
  Tensor first;   ///< running mean of the gradient
  Tensor second;  ///< running mean of the gradient's square
};

struct AdamOptions {
  double learning_rate = 0;
  int64_t step = 0;  ///< from 1
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0;
  /// AdamW: the decay shrinks the weight instead of joining the gradient (Loshchilov and Hutter, 2019).
  bool decoupled = false;
  /// Receives the updated weights in half precision: bf16, or f16 on a GPU, in the shape of the weights.
  Tensor copy = {};
  UpdateControl control = {};
  UpdateGroups groups = {};  ///< of the weights; the factors multiply learning_rate and weight_decay
};

/// One step of Adam (Kingma and Ba, 2015) over all weights at once, as PyTorch defines it:
///   g = gradient + weight_decay * weight, or, decoupled, weight *= 1 - learning_rate * weight_decay
///   first += (1 - beta1) * (g - first);  second = beta2 * second + (1 - beta2) * g^2
///   weight -= learning_rate / (1 - beta1^step) * first / (sqrt(second / (1 - beta2^step)) + epsilon)
/// weights, gradients and moments: flat f32 of equal length. CPU workers multiply a gradient factor into `gradients`.
void adam_step(const Tensor& weights, const Tensor& gradients, const AdamMoments& moments, const AdamOptions& options);

}  // namespace dptrain::ops
