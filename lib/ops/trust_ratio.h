#pragma once

#include <limits>

#include "ops/square_digits.h"

namespace dptrain::ops {

// How much a tensor's update is scaled by its norms, in the same double on CPU workers and GPUs: no product is added to
// anything, which compilers would round differently. A norm that is no finite number makes none of the tensor's weights
// one.

/// Of whole tensors' sums, one behind the other: of weights, and of what they are updated by.
constexpr const double* weights_squares(const double* squares, int64_t tensor) {
  return squares + 2 * tensor * kSquareSumNumbers;
}
constexpr const double* updates_squares(const double* squares, int64_t tensor) {
  return squares + (2 * tensor + 1) * kSquareSumNumbers;
}

/// A ratio of norms as what f32 is multiplied by.
constexpr double trusted(double ratio, double weights, double updates) {
  using Double = std::numeric_limits<double>;
  if (!(weights <= Double::max() && updates <= Double::max())) return Double::quiet_NaN();
  constexpr double kMost = 0x1p100;
  return ratio > kMost ? kMost : ratio;
}

/// LARS's; `gradients`: their norm.
constexpr double lars_ratio(double weights, double gradients, double decay, double coefficient, double epsilon) {
  if (weights == 0 || gradients == 0) return 1;
  return trusted(coefficient / (gradients / weights + decay + epsilon / weights), weights, gradients);
}

/// LAMB's.
constexpr double lamb_ratio(double weights, double directions) {
  return weights == 0 || directions == 0 ? 1 : trusted(weights / directions, weights, directions);
}

}  // namespace dptrain::ops
