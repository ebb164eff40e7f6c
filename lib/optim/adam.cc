#include "optim/adam.h"

namespace dptrain::optim {

Adam::Adam(const FlatWeights& flat, const AdamSettings& settings)
    : Optimizer(flat),
      settings_(settings),
      groups_(update_groups_of(flat)),
      moments_{.first = zeros_like_weights(flat), .second = zeros_like_weights(flat)} {}

void Adam::step_range(int64_t begin, const Tensor& gradients, const OptimizerStep& step) {
  const auto range = [&](const Tensor& whole) { return range_like(gradients, whole, begin); };
  ops::adam_step(range(flat().weights), gradients, {.first = range(moments_.first), .second = range(moments_.second)},
                 {.learning_rate = step.learning_rate,
                  .step = step.number,
                  .beta1 = settings_.beta1,
                  .beta2 = settings_.beta2,
                  .epsilon = settings_.epsilon,
                  .weight_decay = settings_.weight_decay,
                  .decoupled = settings_.decoupled,
                  .copy = range(flat().copies),
                  .control = step.control,
                  .groups = groups_.range(begin, gradients.elements())});
}

std::vector<OptimizerState> Adam::state() const {
  return {{"exp_avg", moments_.first}, {"exp_avg_sq", moments_.second}};
}

}  // namespace dptrain::optim
