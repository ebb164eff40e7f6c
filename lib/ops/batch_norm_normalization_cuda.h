#pragma once

#include "ops/batch_norm.h"
#include "ops/cuda_kernels.h"

// What forward and backward of a batch norm share. For .cu files only.

namespace dptrain::ops::cuda {

/// What normalizes a channel: y = x * scale + shift.
struct Affine {
  float scale;
  float shift;
};

/// What the normalization of each channel follows from.
struct Normalization {
  const float* gamma;
  const float* beta;
  const float* mean;
  const float* inverse_deviation;

  /// Forward and backward compute it alike, so that they agree to the last bit on where a ReLU cut. The product is in
  /// double: of a mean far from zero, its rounding would be seen in all of y.
  __device__ Affine of(int64_t c) const {
    const float scale = gamma[c] * inverse_deviation[c];
    return {scale, static_cast<float>(beta[c] - static_cast<double>(mean[c]) * scale)};
  }
};

inline Normalization normalization_of(const BatchNormInputs& in, const BatchNormTraining& forward) {
  return {.gamma = in.gamma.data<float>(),
          .beta = in.beta.data<float>(),
          .mean = forward.mean.data<float>(),
          .inverse_deviation = forward.inverse_deviation.data<float>()};
}

/// What devices that share a batch have added up: BatchNormPart::sums.
struct SumsOfAll {
  const float* sums;
  int64_t channels;

  /// Of channel c; zero where no device has a sample.
  __device__ float mean(int64_t c) const { return sums[channels] > 0 ? sums[c] / sums[channels] : 0.f; }
  /// How many values a channel has, at `positions` a sample.
  __device__ double values(int64_t positions) const { return double{sums[channels]} * static_cast<double>(positions); }
};

}  // namespace dptrain::ops::cuda
