#pragma once

#include <limits>

#include "ops/square_digits.h"

namespace dptrain::ops {

// How much a tensor's update is scaled by its norms. CPU workers and GPUs compute it in the same double arithmetic: no
// product is added to anything, since compilers could round that differently. If a norm isn't finite, none of the
// tensor's weights stays finite.

/// The sums of squares of a tensor's weights, and of what they are updated by, in the array of all tensors' sums.
constexpr const double* weights_squares(const double* squares, int64_t tensor) {
  return squares + 2 * tensor * kSquareSumNumbers;
}
constexpr const double* updates_squares(const double* squares, int64_t tensor) {
  return squares + (2 * tensor + 1) * kSquareSumNumbers;
}

/// Returns a ratio of norms as a factor for f32: at most 2^100, and NaN if a norm isn't finite.
constexpr double trusted(double ratio, double weights, double updates) {
  using Double = std::numeric_limits<double>;
  if (!(weights <= Double::max() && updates <= Double::max())) return Double::quiet_NaN();
  constexpr double kMost = 0x1p100;
  return ratio > kMost ? kMost : ratio;
}

/// LARS's ratio; `gradients` is the gradients' norm.
constexpr double lars_ratio(double weights, double gradients, double decay, double coefficient, double epsilon) {
  if (weights == 0 || gradients == 0) return 1;
  return trusted(coefficient / (gradients / weights + decay + epsilon / weights), weights, gradients);
}

/// LAMB's ratio.
constexpr double lamb_ratio(double weights, double directions) {
  return weights == 0 || directions == 0 ? 1 : trusted(weights / directions, weights, directions);
}

}  // namespace dptrain::ops
