#pragma once

#include <cstdint>

namespace dptrain::ops {

/// A chunk is the part of a tensor that one sample and one block of channels take: `positions` rows of `lanes` floats
/// that lie one after the other. In nchw16c that is 16 lanes, in nhwc all channels, in the plain layout one.
///
/// The arrays named below have an entry a lane of the chunk's channels.
struct BatchNormKernels {
  /// mean[l] and squares[l] = sum over rows of (x - mean[l])^2 of one chunk.
  void (*statistics)(const float* x, int64_t positions, int64_t lanes, float* mean, float* squares);

  /// y = x * scale + shift [+ residual], then max(0, .) with `relu`. `residual` may be null; of its `residual_lanes`,
  /// at most `lanes`, each is added to the lane of its number.
  void (*normalize)(const float* x, const float* residual, int64_t residual_lanes, int64_t positions, int64_t lanes,
                    const float* scale, const float* shift, bool relu, float* y);

  /// The incoming gradient g is masked where the output was not positive: by `y`, or where `y` is null and `relu`, by
  /// the output computed again from x, scale and shift. sum[l] = sum of g; dot[l] = sum of g * (x - mean).
  void (*gradient_sums)(const float* x, const float* y, const float* incoming, int64_t positions, int64_t lanes,
                        const float* scale, const float* shift, const float* mean, bool relu, float* sum, float* dot);

  /// out = scale * (g - mean_gradient) + slope * (x - mean), with g masked as above; `residual_gradient` = g, or null.
  void (*input_gradient)(const float* x, const float* y, const float* incoming, int64_t positions, int64_t lanes,
                         const float* scale, const float* shift, const float* mean, const float* mean_gradient,
                         const float* slope, bool relu, float* out, float* residual_gradient);
};

const BatchNormKernels& batch_norm_kernels();

}  // namespace dptrain::ops
