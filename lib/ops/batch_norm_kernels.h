#pragma once

#include <cstdint>

namespace dptrain::ops {

/// A chunk is one sample's part of a tensor in one block of channels: `positions` contiguous rows of `lanes` floats.
/// The lanes are 16 channels in nchw16c, all channels in nhwc, and one channel in the plain layout.
///
/// Arrays marked "by lane" have one entry per lane of the chunk. The other arrays have one entry per element of the
/// chunk.
struct BatchNormChunk {
  const float* x;
  int64_t positions;
  int64_t lanes;
  const float* scale;  ///< by lane, like `shift`; the output is x * scale + shift
  const float* shift;
  bool relu;
};

/// The residual that is added to a normalized chunk.
struct BatchNormAddend {
  const float* rows;  ///< null: nothing is added
  int64_t lanes;      ///< lanes of its rows, at most the chunk's; lane l is added to the chunk's lane l
};

/// Inputs of a chunk's backward pass. The incoming gradient g is zeroed where the output was not positive. That is
/// decided by `y`, or if `y` is null and `relu` is set, by the output computed again.
struct BatchNormChunkGradient : BatchNormChunk {
  const float* y;
  const float* incoming;
  const float* mean;  ///< by lane
};

struct BatchNormKernels {
  /// By lane: mean[l], and squares[l] = the sum over one chunk's rows of (x - mean[l])^2.
  void (*statistics)(const float* x, int64_t positions, int64_t lanes, float* mean, float* squares);

  /// y = x * scale + shift [+ addend], then max(0, .) with `relu`.
  void (*normalize)(const BatchNormChunk& chunk, const BatchNormAddend& addend, float* y);

  /// By lane: sum[l] = sum of g; dot[l] = sum of g * (x - mean).
  void (*gradient_sums)(const BatchNormChunkGradient& chunk, float* sum, float* dot);

  /// out = scale * (g - mean_gradient) + slope * (x - mean), with mean_gradient and slope by lane. residual_gradient =
  /// g, unless it is null.
  void (*input_gradient)(const BatchNormChunkGradient& chunk, const float* mean_gradient, const float* slope,
                         float* out, float* residual_gradient);
};

const BatchNormKernels& batch_norm_kernels();

}  // namespace dptrain::ops
