#pragma once

#include <cstdint>

namespace dptrain::ops {

/// Kernels over contiguous rows of `width` floats. `mean` and `inverse_deviation` have one number per row. They run on
/// the calling thread.
struct LayerNormKernels {
  /// With a residual, sum = x + residual is normalized. Without one, `residual` and `sum` are null and x is normalized.
  /// Unless `mask` is null, x is multiplied by `scale` where the mask is 1, and dropped where it is 0.
  struct Forward {
    const float *x, *residual, *gamma, *beta;
    const uint8_t* mask;
    float scale, epsilon;
    float *sum, *y, *mean, *inverse_deviation;
  };
  void (*forward)(const Forward& rows, int64_t count, int64_t width);

  /// `gamma_sums` and `beta_sums`, of `width` floats, get these rows' part of the parameters' gradients. `gradient`
  /// gets the gradient of the sum. Unless `mask` is null, `masked_gradient` gets the gradient of x, the masked input.
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
