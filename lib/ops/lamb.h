#pragma once

#include "ops/adam.h"
#include "ops/tensor_table.h"
#include "ops/update_control.h"

namespace dptrain::ops {

struct LambOptions {
  double learning_rate = 0;
  int64_t step = 0;  ///< from 1
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-6;
  double weight_decay = 0;
  /// bf16, or on a GPU f16, in the shape of the weights, written with their new values.
  Tensor copy = {};
  UpdateControl control = {};
};

// LAMB (You et al., "Large Batch Optimization for Deep Learning: Training BERT in 76 minutes", 2020), in two passes
// over all weights: the second goes by norms of whole tensors, of which others may have parts.

/// Takes the gradients into the moments, as Adam does (adam.h), and adds to the sums of their tensors (see
/// no_tensor_squares()) the squares of the weights and of
///   direction = first / (1 - beta1^step) / (sqrt(second / (1 - beta2^step)) + epsilon) + weight_decay * weight
/// weights, gradients, moments: flat f32 of equal length. A gradient factor is multiplied into `gradients` on CPU
/// workers.
void lamb_measure(const Tensor& weights, const Tensor& gradients, const AdamMoments& moments, const TensorTable& table,
                  const Tensor& squares, const LambOptions& options);

/// weight -= learning_rate * |weights| / |directions| * direction, of each tensor; the quotient is 1 where one of the
/// norms is 0, or the tensor doesn't adapt. squares: of whole tensors.
void lamb_step(const Tensor& weights, const AdamMoments& moments, const TensorTable& table, const Tensor& squares,
               const LambOptions& options);

}  // namespace dptrain::ops
