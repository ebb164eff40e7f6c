#pragma once

#include "ops/tensor_table.h"
#include "ops/update_control.h"

namespace dptrain::ops {

struct LarsOptions {
  double learning_rate = 0;
  double momentum = 0;
  double weight_decay = 0;
  bool nesterov = false;
  double trust_coefficient = 0.001;
  double epsilon = 1e-8;
  /// Receives the updated weights in half precision: bf16, or f16 on a GPU, in the shape of the weights.
  Tensor copy = {};
  UpdateControl control = {};
};

/// Takes a step of layer-wise adaptive rate scaling (You, Gitman and Ginsburg, "Large Batch Training of Convolutional
/// Networks", 2017): one of stochastic gradient descent (sgd.h), in which each tensor's gradients and weight decay are
/// both multiplied by
///   trust_coefficient * |weights| / (|gradients| + weight_decay * |weights| + epsilon)
/// or by 1 if one of these norms is 0 or the tensor doesn't adapt. weights, gradients: flat f32 of equal length.
/// squares: their tensor_squares, summed over whole tensors, parts of which may be on other devices. A gradient factor
/// is applied to the gradients before everything else. CPU workers multiply all these factors into `gradients`.
void lars_step(const Tensor& weights, const Tensor& gradients, const Tensor& velocity, const TensorTable& table,
               const Tensor& squares, const LarsOptions& options);

}  // namespace dptrain::ops
