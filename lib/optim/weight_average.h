#pragma once

#include "nn/model.h"

namespace dptrain::optim {

/// The exponential moving average of a model's weights: average += (1 - decay) * (weights - average) after each step
/// (Polyak and Juditsky, 1992; as timm's and torch.optim.swa_utils' EMA). Begins at the model's weights.
class WeightAverage {
 public:
  WeightAverage(const nn::Model& model, double decay);

  /// After an optimizer step.
  void follow(const nn::Model& model);
  /// Makes the average the model's weights and its weights the average: before an evaluation, and once more after it.
  void swap_with(nn::Model& model);

  /// Flat, as the weights lie.
  const Tensor& values() const { return average_; }

 private:
  double decay_;
  Tensor average_;
};

}  // namespace dptrain::optim
