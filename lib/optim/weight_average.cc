#include "optim/weight_average.h"

#include "ops/approach.h"

namespace dptrain::optim {

WeightAverage::WeightAverage(const nn::Model& model, double decay)
    : decay_(decay),
      average_(Tensor::empty(model.device(), model.weights().shape(), {.purpose = MemoryPurpose::optimizer})) {
  average_.copy_from(model.weights());
}

void WeightAverage::follow(const nn::Model& model) {
  ops::approach(average_, model.weights(), static_cast<float>(1 - decay_));
}

void WeightAverage::swap_with(nn::Model& model) {
  const Tensor kept = Tensor::empty(model.device(), average_.shape(), {.purpose = MemoryPurpose::workspace});
  kept.copy_from(average_);
  average_.copy_from(model.weights());
  model.weights().copy_from(kept);
  model.refresh_copies();
}

}  // namespace dptrain::optim
