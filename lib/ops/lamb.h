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
  /// Receives the updated weights in half precision: bf16, or f16 on a GPU, in the shape of the weights.
  Tensor copy = {};
  UpdateControl control = {};
};

// LAMB (You et al., "Large Batch Optimization for Deep Learning: Training BERT in 76 minutes", 2020), in two passes
// over all weights. The second pass uses norms of whole tensors, parts of which may be on other devices.

/// Updates the moments with the gradients, as Adam does (adam.h), and adds to `squares` (see no_tensor_squares()) the
/// squares of each tensor's weights and of
///   direction = first / (1 - beta1^step) / (sqrt(second / (1 - beta2^step)) + epsilon) + weight_decay * weight
/// weights, gradients, moments: flat f32 of equal length. CPU workers multiply a gradient factor into `gradients`.
void lamb_measure(const Tensor& weights, const Tensor& gradients, const AdamMoments& moments, const TensorTable& table,
                  const Tensor& squares, const LambOptions& options);

/// For each tensor: weight -= learning_rate * |weights| / |directions| * direction. The quotient is 1 if one of the
/// norms is 0 or the tensor doesn't adapt. squares: sums over whole tensors.
void lamb_step(const Tensor& weights, const AdamMoments& moments, const TensorTable& table, const Tensor& squares,
               const LambOptions& options);

}  // namespace dptrain::ops
