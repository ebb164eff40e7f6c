#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace dptrain::parallel {

struct StepResults;

/// Squared norms of gradients that one rank measured in a step. They are multiplied by the square of the loss factor.
struct GradientSquares {
  double own = 0;          ///< of the rank's contribution to the sum over all ranks
  double summed = 0;       ///< of the part of that sum which this rank updates with; 0 if other ranks measure it
  double loss_factor = 1;  ///< in fp16: the loss scale
};

/// How much the gradients of single samples differ from each other, relative to their mean: the simple gradient noise
/// scale (McCandlish et al., "An Empirical Model of Large-Batch Training", 2018). Holds the estimates of some steps,
/// each weighted by its samples: the smaller a step, the larger the error of its estimates.
struct GradientNoise {
  /// Of the trace of the covariance matrix of one sample's gradient.
  double variance_sum = 0;
  /// Of the squared norm of the mean gradient of all possible samples. An estimate may be negative.
  double squared_norm_sum = 0;
  int64_t samples = 0;  ///< 0: nothing was measured

  double variance() const { return variance_sum / static_cast<double>(samples); }
  double squared_norm() const { return squared_norm_sum / static_cast<double>(samples); }
  /// Variance over squared norm, in samples. Nothing if the estimates don't show a gradient beside the noise.
  std::optional<double> scale() const;
  GradientNoise& operator+=(const GradientNoise& other);
};

/// The estimates of one step, from the results of all ranks. There are none if fewer than two ranks had samples, if
/// nothing was measured, or if a gradient wasn't finite.
GradientNoise noise_of_step(const std::vector<StepResults>& of_ranks);

}  // namespace dptrain::parallel
