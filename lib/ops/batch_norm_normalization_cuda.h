#pragma once

#include "ops/batch_norm.h"
#include "ops/channel_rows_cuda.h"

// What the forward and backward passes of a batch norm share. For .cu files only.

namespace dptrain::ops::cuda {

/// The normalization of a channel: y = x * scale + shift.
struct Affine {
  float scale;
  float shift;
};

/// The numbers that determine the normalization of each channel.
struct Normalization {
  const float* gamma;
  const float* beta;
  const float* mean;
  const float* inverse_deviation;

  /// The numbers of one channel.
  struct Numbers {
    float gamma, beta, mean, inverse_deviation;

    /// Computes the scale and shift. Forward and backward compute them alike, so that they agree to the last bit on
    /// where a ReLU cut. The product is in double: if the mean is far from zero, rounding it to f32 would show in all
    /// of y.
    __device__ Affine affine() const {
      const float scale = gamma * inverse_deviation;
      return {scale, static_cast<float>(beta - static_cast<double>(mean) * scale)};
    }
  };
  __device__ Numbers of(int64_t c) const { return {gamma[c], beta[c], mean[c], inverse_deviation[c]}; }
};

/// The numbers of V columns of a walk. All of them are loaded before the first is used.
template <int V>
struct ColumnNumbers {
  Normalization::Numbers of[V];

  __device__ ColumnNumbers(const ChannelRows& m, const Normalization& normalization, int64_t column) {
    m.for_each_channel<V>(column, [&](int i, int64_t c) { of[i] = normalization.of(c); });
  }
};

inline Normalization normalization_of(const BatchNormInputs& in, const BatchNormTraining& forward) {
  return {.gamma = in.gamma.data<float>(),
          .beta = in.beta.data<float>(),
          .mean = forward.mean.data<float>(),
          .inverse_deviation = forward.inverse_deviation.data<float>()};
}

/// The sums over all devices that share a batch: BatchNormPart::sums, added up.
struct SumsOfAll {
  const float* sums;
  int64_t channels;

  /// The mean of channel c; zero if no device has a sample.
  __device__ float mean(int64_t c) const { return sums[channels] > 0 ? sums[c] / sums[channels] : 0.f; }
  /// The number of values of a channel, if a sample has `positions` of them.
  __device__ double values(int64_t positions) const { return double{sums[channels]} * static_cast<double>(positions); }
};

}  // namespace dptrain::ops::cuda
