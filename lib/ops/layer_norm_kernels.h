#pragma once

#include <cstdint>

namespace dptrain::ops {

/// Kernels over rows of `width` floats that lie one after the other; `mean` and `inverse_deviation` have a number a
/// row. They run on the calling thread.
struct LayerNormKernels {
  /// sum = x + residual, where there is a residual; else both are null and x is what is normalized. Where `mask` isn't
  /// null, x counts `scale` times where it is 1, and not where it is 0.
  struct Forward {
    const float *x, *residual, *gamma, *beta;
    const uint8_t* mask;
    float scale, epsilon;
    float *sum, *y, *mean, *inverse_deviation;
  };
  void (*forward)(const Forward& rows, int64_t count, int64_t width);

  /// `gamma_sums` and `beta_sums`, of `width` floats: the parameters' gradients as far as these rows make them.
  /// `gradient` is that of the sum; where `mask` isn't null, that of what was masked is written to `masked_gradient`.
  struct Backward {
    const float *x, *incoming, *gamma, *mean, *inverse_deviation;
    const uint8_t* mask;
    float scale;
    float *gradient, *masked_gradient, *gamma_sums, *beta_sums;
  };
  void (*backward)(const Backward& rows, int64_t count, int64_t width);
};

const LayerNormKernels& layer_norm_kernels();

}  // namespace dptrain::ops
