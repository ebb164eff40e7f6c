#pragma once

#include "ops/summed_gradient.h"

namespace dptrain::ops {

/// Inputs of batch normalization over the samples and positions of each channel (Ioffe and Szegedy, 2015). One pass
/// also does what follows it in residual networks:
///   y = gamma * (x - mean) / sqrt(variance + epsilon) + beta, then + residual, then max(0, .)
/// x, y: [N, C, H, W] in one layout of images. residual: the same shape, or fewer channels, which are then added to the
/// first channels of y (the shortcuts of PyramidNet, Han, Kim and Kim, 2017). gamma, beta, running statistics: [C].
struct BatchNormInputs {
  Tensor x;
  Tensor gamma;
  Tensor beta;
  Tensor running_mean;
  Tensor running_variance;
  Tensor residual;  ///< in any layout; undefined: none. Backward only asks whether it is defined
};

struct BatchNormOptions {
  bool relu = false;
  float epsilon = 1e-5f;
  /// running = (1 - momentum) * running + momentum * batch. The running variance is unbiased (divided by count - 1).
  float momentum = 0.1f;
  /// Backward only: forward used the running statistics, which don't depend on x.
  bool constant_statistics = false;
};

/// What a forward pass keeps for backward.
struct BatchNormTraining {
  Tensor y;
  Tensor mean;               ///< [C], of the batch or the running one
  Tensor inverse_deviation;  ///< [C], 1 / sqrt(variance + epsilon)
};

/// Normalizes by the batch's own statistics and updates the running ones. Sums are folded in a fixed order, whatever
/// the number of threads.
BatchNormTraining batch_norm_training(const BatchNormInputs& in, const BatchNormOptions& options);

/// Normalizes by the running statistics and keeps what backward with `constant_statistics` reads.
BatchNormTraining batch_norm_by_running(const BatchNormInputs& in, const BatchNormOptions& options);

/// Normalizes by the running statistics and returns the output alone.
Tensor batch_norm_evaluation(const BatchNormInputs& in, const BatchNormOptions& options);

/// Recomputes the output of a forward pass without a residual, bit for bit, from its input and statistics. Doesn't read
/// `forward.y`.
Tensor batch_norm_again(const BatchNormInputs& in, const BatchNormTraining& forward, const BatchNormOptions& options);

/// Where backward writes or adds the gradients.
struct BatchNormSinks {
  Tensor gamma;                   ///< [C] in f32
  Tensor beta;                    ///< [C] in f32
  bool accumulate_gamma = false;  ///< add to the gradient that `gamma` holds
  bool accumulate_beta = false;
  /// The gradient of x is added to this tensor, which has x's shape and type in any layout. Undefined: the gradient
  /// gets memory of its own.
  Tensor x = {};
  /// [N, C + P, H, W] in x's type: its first channels are added to the gradient of x, which gets memory of its own.
  /// Undefined: none; must be undefined if `x` is defined.
  Tensor wider = {};

  /// Allocates gradients of gamma and beta for `in`.
  static BatchNormSinks of(const BatchNormInputs& in);
};

struct BatchNormGradients {
  Tensor x;  ///< in the layout of x, or the sink's tensor that it was added to
  /// In the layout of x and with all its channels; the gradient of a residual with fewer channels is the first ones.
  /// Undefined without a residual.
  Tensor residual;
};

BatchNormGradients batch_norm_backward(const BatchNormInputs& in, const BatchNormTraining& forward,
                                       SummedGradient output_gradient, const BatchNormSinks& sinks,
                                       const BatchNormOptions& options);

}  // namespace dptrain::ops
