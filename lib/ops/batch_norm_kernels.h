#pragma once

#include <cstdint>

namespace dptrain::ops {

/// A chunk is the part of a tensor that one sample and one block of channels take: `positions` rows of `lanes` floats
/// that lie one after the other. In nchw16c that is 16 lanes, in nhwc all channels, in the plain layout one.
///
/// Of the arrays below those named "of a lane" have an entry a lane of the chunk's channels, the others a chunk's.
struct BatchNormChunk {
  const float* x;
  int64_t positions;
  int64_t lanes;
  const float* scale;  ///< of a lane, like `shift`: x * scale + shift is the output
  const float* shift;
  bool relu;
};

/// What is added to a normalized chunk.
struct BatchNormAddend {
  const float* rows;  ///< null where there is nothing to be added
  int64_t lanes;      ///< of its rows, at most the chunk's; each is added to the lane of its number
};

/// What the backward pass of a chunk begins with. The incoming gradient g is masked where the output was not positive:
/// by `y`, or where `y` is null and `relu`, by the output computed again.
struct BatchNormChunkGradient : BatchNormChunk {
  const float* y;
  const float* incoming;
  const float* mean;  ///< of a lane
};

struct BatchNormKernels {
  /// Of a lane: mean[l], and squares[l] = sum over rows of (x - mean[l])^2 of one chunk.
  void (*statistics)(const float* x, int64_t positions, int64_t lanes, float* mean, float* squares);

  /// y = x * scale + shift [+ addend], then max(0, .) with `relu`.
  void (*normalize)(const BatchNormChunk& chunk, const BatchNormAddend& addend, float* y);

  /// Of a lane: sum[l] = sum of g; dot[l] = sum of g * (x - mean).
  void (*gradient_sums)(const BatchNormChunkGradient& chunk, float* sum, float* dot);

  /// out = scale * (g - mean_gradient) + slope * (x - mean), where those two are of a lane; `residual_gradient` = g, or
  /// null.
  void (*input_gradient)(const BatchNormChunkGradient& chunk, const float* mean_gradient, const float* slope,
                         float* out, float* residual_gradient);
};

const BatchNormKernels& batch_norm_kernels();

}  // namespace dptrain::ops
