#include "train/noise_bound.h"

#include <algorithm>

namespace dptrain::train {
namespace {

constexpr double kNoiseToBound = 10;
/// What is tried may round a layer's sums alike: a few roundings of f32 are always allowed.
constexpr double kLeastNoise = 8.0 / (1 << 24);
/// Half of 1, which nothing in place of a gradient differs by. What is capped is the noise of many roundings alone,
/// which few activations near zero make large: strategies round once, and the margin of ten over that is left to them
/// whole. So a layer is no noise where its norm is twenty times what one rounding changes.
constexpr double kLargestBound = 0.5;

}  // namespace

NoiseBound noise_bound(double of_a_rounding, double of_many) {
  const double needed = std::max(kNoiseToBound * kLeastNoise, kNoiseToBound * of_a_rounding);
  if (needed > kLargestBound) return {.bound = std::max(needed, of_many), .all_noise = true};
  return {.bound = std::min(std::max(needed, of_many), kLargestBound)};
}

}  // namespace dptrain::train
