#pragma once

#include <algorithm>
#include <vector>

#include "ops/batch_norm.h"
#include "ops/batch_norm_kernels.h"
#include "ops/f32_pieces.h"

// The passes over memory of a batch norm on a CPU worker, and the computations per channel between them.

namespace dptrain::ops::cpu {

/// How a tensor is split into chunks of equal size: by sample, then by block of channels. Unless it is f32, positions
/// are split too, into parts that are widened to f32 at once.
struct Chunks {
  explicit Chunks(const Tensor& x);

  int64_t count() const { return samples * blocks * parts; }
  int64_t elements() const { return positions * lanes; }
  int64_t first_lane(int64_t chunk) const { return chunk / parts % blocks * lanes; }
  int64_t offset(int64_t chunk) const { return chunk * elements(); }
  int64_t padded_channels() const { return blocks * lanes; }
  double chunks_per_channel() const { return static_cast<double>(samples * parts); }
  double values_per_channel() const { return chunks_per_channel() * static_cast<double>(positions); }

  /// Calls f(channel, i) for each channel's entries in an array with one number per lane of each chunk. The order is
  /// that of memory, so each channel's samples come in order.
  template <class F>
  void for_each_number(const F& f) const {
    for (int64_t chunk = 0; chunk < count(); ++chunk) {
      const int64_t first = first_lane(chunk), end = std::min(lanes, channels - first);
      for (int64_t lane = 0; lane < end; ++lane) f(static_cast<size_t>(first + lane), chunk * lanes + lane);
    }
  }

  int64_t samples, channels, lanes, blocks;
  int64_t parts;      ///< parts of a sample's positions
  int64_t positions;  ///< positions of a chunk
};

/// One number per channel, padded with zeros to whole blocks, so that padded lanes of the output stay zero.
class PerLane {
 public:
  explicit PerLane(const Chunks& chunks) : values_(static_cast<size_t>(chunks.padded_channels())) {}
  float* at(int64_t lane) { return values_.data() + lane; }
  const float* at(int64_t lane) const { return values_.data() + lane; }

 private:
  std::vector<float> values_;
};

/// A channel's mean, and its sum of (x - mean)^2.
struct ChannelMoments {
  double mean = 0;
  double squares = 0;
};

/// Returns the moments of every channel, folded in sample order; zeros without samples.
std::vector<ChannelMoments> moments_of(const Tensor& x);

/// Writes the statistics that normalize channel c and updates its running statistics. `moments` are over `count`
/// values; with count 0 the running statistics don't change.
void finish_statistics(const BatchNormInputs& in, const BatchNormTraining& result, int64_t c,
                       const ChannelMoments& moments, double count, const BatchNormOptions& options);

/// Returns y = x * scale + shift by these statistics, then + residual, then max(0, .) with relu.
Tensor normalized(const BatchNormInputs& in, const BatchNormTraining& statistics, const BatchNormOptions& options);

/// A channel's sum of g and of g * (x - mean), with g the output's gradient after the ReLU's mask.
struct ChannelGradients {
  double sum = 0;
  double dot = 0;
};

/// The backward pass of one batch norm.
class BatchNormBackward {
 public:
  BatchNormBackward(const BatchNormInputs& in, const BatchNormTraining& forward, const Tensor& output_gradient,
                    const BatchNormOptions& options);

  int64_t channels() const { return chunks_.channels; }
  double values_per_channel() const { return chunks_.values_per_channel(); }

  /// Returns the sums of every channel, folded in sample order.
  std::vector<ChannelGradients> sums() const;

  /// Writes the gradients of gamma and beta of channel c, computed from its sums.
  void finish_parameters(const BatchNormSinks& sinks, int64_t c, const ChannelGradients& sums) const;
  /// Sets what is subtracted from the gradient of x in channel c; `sums` are over `count` values.
  void center(int64_t c, const ChannelGradients& sums, double count);
  BatchNormGradients inputs() const;

 private:
  BatchNormChunkGradient gradient_of(int64_t chunk, Pieces& pieces) const;

  const BatchNormInputs& in_;
  const BatchNormTraining& forward_;
  bool relu_;
  Chunks chunks_;
  PerLane scale_, shift_, mean_, mean_gradient_, slope_;
  Tensor incoming_;
  Tensor y_;  ///< undefined: the kernels compute the output's sign again
};

}  // namespace dptrain::ops::cpu
