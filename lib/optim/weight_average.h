#pragma once

#include "tensor/tensor.h"

namespace dptrain::optim {

/// The exponential moving average of weights that lie flat: average += (1 - decay) * (weights - average) after each
/// step (Polyak and Juditsky, 1992; as timm's and torch.optim.swa_utils' EMA). Begins at the weights.
class WeightAverage {
 public:
  WeightAverage(const Tensor& weights, double decay);

  /// Begins again at these weights.
  void restart(const Tensor& weights) { average_.copy_from(weights); }
  /// After an optimizer step.
  void follow(const Tensor& weights);
  /// Makes the average the weights and the weights the average: before an evaluation, and once more after it. Copies of
  /// the weights are the caller's.
  void swap_with(const Tensor& weights);

  /// As the weights lie.
  const Tensor& values() const { return average_; }

 private:
  double decay_;
  Tensor average_;
};

}  // namespace dptrain::optim
