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
  /// bf16, or on a GPU f16, in the shape of the weights, written with their new values.
  Tensor copy = {};
  UpdateControl control = {};
};

// Layer-wise adaptive rate scaling (You, Gitman and Ginsburg, "Large Batch Training of Convolutional Networks", 2017),
// in two passes over all weights: the second goes by norms of whole tensors, of which others may have parts.

/// Adds the squares of weights and gradients to the sums of their tensors; see no_tensor_squares().
/// weights, gradients: flat f32 of equal length.
void lars_measure(const Tensor& weights, const Tensor& gradients, const TensorTable& table, const Tensor& squares);

/// A step of stochastic gradient descent (sgd.h) from gradients and a weight decay that are both multiplied, for each
/// tensor, by
///   trust_coefficient * |weights| / (|gradients| + weight_decay * |weights| + epsilon)
/// or by 1 where one of these norms is 0, or the tensor doesn't adapt. squares: of whole tensors. A gradient factor is
/// the gradients' before all else; what they are multiplied by is multiplied into `gradients` on CPU workers.
void lars_step(const Tensor& weights, const Tensor& gradients, const Tensor& velocity, const TensorTable& table,
               const Tensor& squares, const LarsOptions& options);

}  // namespace dptrain::ops
