#include "optim/weight_average.h"

#include "ops/approach.h"

namespace dptrain::optim {

WeightAverage::WeightAverage(const Tensor& weights, double decay)
    : decay_(decay), average_(Tensor::empty(weights.device(), weights.shape(), {.purpose = MemoryPurpose::optimizer})) {
  restart(weights);
}

void WeightAverage::follow(const Tensor& weights) { ops::approach(average_, weights, static_cast<float>(1 - decay_)); }

void WeightAverage::swap_with(const Tensor& weights) {
  const Tensor kept = Tensor::empty(weights.device(), weights.shape(), {.purpose = MemoryPurpose::workspace});
  kept.copy_from(average_);
  average_.copy_from(weights);
  weights.copy_from(kept);
}

}  // namespace dptrain::optim
