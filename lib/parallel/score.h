#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "parallel/gradient_noise.h"

namespace dptrain::parallel {

/// Sums over the rows of one of the model's outputs, ignored rows left out. Losses are summed in double, in sample
/// order; `correct` counts the rows that are classified correctly.
struct OutputScore {
  double loss_sum = 0;
  int64_t correct = 0;
  int64_t counted = 0;

  double mean_loss() const { return counted > 0 ? loss_sum / static_cast<double>(counted) : 0; }
  double accuracy() const { return counted > 0 ? static_cast<double>(correct) / static_cast<double>(counted) : 0; }
};

/// The result of some samples: one sum for each of the model's outputs.
struct Score {
  std::vector<OutputScore> outputs = {};
  int64_t samples = 0;
  /// For a step: the ranks of the world whose loss isn't finite, if other ranks have a finite one; else empty.
  std::vector<int> diverged_ranks = {};
  GradientNoise noise = {};  ///< of steps in which it is measured

  /// The sum of the outputs' mean losses: the quantity that training minimizes.
  double mean_loss() const;
  /// The accuracy of the first output, over classes or masked tokens.
  double accuracy() const { return outputs.empty() ? 0 : outputs.front().accuracy(); }
  Score& operator+=(const Score& other);
};

/// A step in which a rank found a loss that isn't finite.
struct DivergedStep {
  size_t step = 0;  ///< counted from 0 among the steps whose scores haven't been taken yet
  int rank = 0;     ///< rank of the world
};

}  // namespace dptrain::parallel
