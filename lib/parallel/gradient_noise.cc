#include "parallel/gradient_noise.h"

#include <cmath>

#include "parallel/step_exchange.h"

namespace dptrain::parallel {

std::optional<double> GradientNoise::scale() const {
  if (steps == 0 || squared_norm <= 0) return std::nullopt;
  return variance / squared_norm;
}

GradientNoise& GradientNoise::operator+=(const GradientNoise& other) {
  variance += other.variance;
  squared_norm += other.squared_norm;
  steps += other.steps;
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
  return {.variance = (own - summed) * static_cast<double>(samples) / (ranks - 1),
          .squared_norm = (ranks * summed - own) / (ranks - 1),
          .steps = 1};
}

}  // namespace dptrain::parallel
