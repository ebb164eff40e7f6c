#pragma once

#include "tensor/tensor.h"

namespace dptrain::optim {

/// The exponential moving average of flat weights: average += (1 - decay) * (weights - average) after each step (Polyak
/// and Juditsky, 1992; like the EMA of timm and torch.optim.swa_utils). It begins at the weights.
class WeightAverage {
 public:
  WeightAverage(const Tensor& weights, double decay);

  /// Starts again at these weights.
  void restart(const Tensor& weights) { average_.copy_from(weights); }
  /// Updates the average; to be called after an optimizer step.
  void follow(const Tensor& weights);
  /// Swaps the average and the weights: called before an evaluation, and once more after it. The caller must refresh
  /// copies of the weights.
  void swap_with(const Tensor& weights);

  /// The average, in the order of the weights.
  const Tensor& values() const { return average_; }

 private:
  double decay_;
  Tensor average_;
};

}  // namespace dptrain::optim
