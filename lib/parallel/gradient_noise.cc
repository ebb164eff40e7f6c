#include "parallel/gradient_noise.h"

#include <cmath>

#include "parallel/step_exchange.h"

namespace dptrain::parallel {

std::optional<double> GradientNoise::scale() const {
  if (samples == 0 || squared_norm_sum <= 0) return std::nullopt;
  return variance_sum / squared_norm_sum;
}

GradientNoise& GradientNoise::operator+=(const GradientNoise& other) {
  variance_sum += other.variance_sum;
  squared_norm_sum += other.squared_norm_sum;
  samples += other.samples;
  return *this;
}

// A rank r with n_r of a step's n samples contributes c_r = n_r / n * g_r to the step's gradient g, where g_r is the
// mean over its own samples. With V the variance and G the squared norm, the expectations are |g_r|^2 = G + V / n_r and
// |g|^2 = G + V / n. So the mean of |g_r|^2, weighted by n_r / n, is G + R V / n for R ranks.
GradientNoise noise_of_step(const std::vector<StepResults>& of_ranks) {
  int64_t samples = 0;
  for (const StepResults& rank : of_ranks) samples += rank.samples;
  double ranks = 0, own = 0, summed = 0;
  for (const StepResults& rank : of_ranks) {
    if (!rank.squares) return {};
    const double scale = 1 / (rank.squares->loss_factor * rank.squares->loss_factor);
    summed += rank.squares->summed * scale;
    if (rank.samples == 0) continue;
    ++ranks;
    own += rank.squares->own * scale * static_cast<double>(samples) / static_cast<double>(rank.samples);
  }
  if (ranks < 2 || !std::isfinite(own) || !std::isfinite(summed)) return {};
  const double n = static_cast<double>(samples), variance = n * (own - summed) / (ranks - 1);
  return {.variance_sum = n * variance, .squared_norm_sum = n * summed - variance, .samples = samples};
}

}  // namespace dptrain::parallel
