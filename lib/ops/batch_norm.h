#pragma once

#include "ops/summed_gradient.h"

namespace dptrain::ops {

/// Batch normalization over the samples and positions of each channel (Ioffe and Szegedy, 2015), in one pass with what
/// follows it in residual networks:
///   y = gamma * (x - mean) / sqrt(variance + epsilon) + beta, then + residual, then max(0, .)
/// x, y: [N, C, H, W] in one layout of images. residual: the same, or of fewer channels: it is added to the first of
/// them then, as PyramidNet's shortcuts widen (Han, Kim and Kim, 2017). gamma, beta, running statistics: [C].
struct BatchNormInputs {
  Tensor x;
  Tensor gamma;
  Tensor beta;
  Tensor running_mean;
  Tensor running_variance;
  Tensor residual;  ///< undefined: none; in any layout. Backward asks only whether there is one
};

struct BatchNormOptions {
  bool relu = false;
  float epsilon = 1e-5f;
  /// running = (1 - momentum) * running + momentum * batch; the variance without bias (divided by count - 1).
  float momentum = 0.1f;
  /// Backward only: the statistics were the running ones, which don't depend on x.
  bool constant_statistics = false;
};

/// What a forward pass keeps for backward.
struct BatchNormTraining {
  Tensor y;
  Tensor mean;               ///< [C], of the batch, or the running one
  Tensor inverse_deviation;  ///< [C], 1 / sqrt(variance + epsilon)
};

/// Normalizes by the batch's own statistics and updates the running ones. The sums are folded in a fixed order,
/// whatever the number of threads.
BatchNormTraining batch_norm_training(const BatchNormInputs& in, const BatchNormOptions& options);

/// Normalizes by the running statistics, keeping what backward with `constant_statistics` reads.
BatchNormTraining batch_norm_by_running(const BatchNormInputs& in, const BatchNormOptions& options);

/// Its output alone.
Tensor batch_norm_evaluation(const BatchNormInputs& in, const BatchNormOptions& options);

/// The output of such a pass without a residual once more, bit for bit, from its input and statistics; `forward.y`
/// isn't read.
Tensor batch_norm_again(const BatchNormInputs& in, const BatchNormTraining& forward, const BatchNormOptions& options);

/// Where the gradients go.
struct BatchNormSinks {
  Tensor gamma;                   ///< [C] in f32
  Tensor beta;                    ///< [C] in f32
  bool accumulate_gamma = false;  ///< add to what stands there
  bool accumulate_beta = false;
  /// What the gradient of x is added to, of the shape and type of x in any layout; undefined: it is written alone.
  Tensor x = {};
  /// [N, C + P, H, W] of the type of x: its first channels are added to the gradient of x, which is written alone.
  /// Undefined: none, as where `x` is there.
  Tensor wider = {};

  /// New memory for them, of the parameters of `in`.
  static BatchNormSinks of(const BatchNormInputs& in);
};

struct BatchNormGradients {
  Tensor x;  ///< in the layout of x, or what it was added to
  /// In the layout of x, with all of its channels: the first ones are those of a residual that has fewer. Undefined
  /// without a residual.
  Tensor residual;
};

BatchNormGradients batch_norm_backward(const BatchNormInputs& in, const BatchNormTraining& forward,
                                       SummedGradient output_gradient, const BatchNormSinks& sinks,
                                       const BatchNormOptions& options);

}  // namespace dptrain::ops
