#pragma once

#include <cmath>

#include "ops/square_digits.h"

namespace dptrain::ops {

// How much a tensor's update is scaled by its norms, in double on CPU workers and GPUs alike. A norm that is no number
// makes none of the weights either.

/// Of whole tensors' sums, one behind the other: of weights, and of what they are updated by.
constexpr const double* weights_squares(const double* squares, int64_t tensor) {
  return squares + 2 * tensor * kSquareSumNumbers;
}
constexpr const double* updates_squares(const double* squares, int64_t tensor) {
  return squares + (2 * tensor + 1) * kSquareSumNumbers;
}

/// Weights and gradients are multiplied by it in f32.
inline constexpr double kMostTrust = 0x1p100;
constexpr double trusted(double ratio) { return ratio > kMostTrust ? kMostTrust : ratio; }

/// LARS's; `gradients`: their norm.
constexpr double lars_ratio(double weights, double gradients, double decay, double coefficient, double epsilon) {
  if (weights == 0 || gradients == 0) return 1;
  return trusted(coefficient * weights / (gradients + decay * weights + epsilon));
}

/// LAMB's.
constexpr double lamb_ratio(double weights, double directions) {
  return weights == 0 || directions == 0 ? 1 : trusted(weights / directions);
}

}  // namespace dptrain::ops
