#include "optim/lamb.h"

#include "base/check.h"

namespace dptrain::optim {

Lamb::Lamb(const FlatWeights& flat, const LambSettings& settings)
    : Optimizer(flat),
      settings_(settings),
      table_(tensor_table_of(flat, settings.adapts_vectors)),
      moments_{.first = zeros_like_weights(flat), .second = zeros_like_weights(flat)} {}

ops::LambOptions Lamb::options(const OptimizerStep& step) const {
  return {.learning_rate = step.learning_rate,
          .step = step.number,
          .beta1 = settings_.beta1,
          .beta2 = settings_.beta2,
          .epsilon = settings_.epsilon,
          .weight_decay = settings_.weight_decay,
          .copy = flat().copies,
          .control = step.control};
}

void Lamb::measure(const OptimizerStep& step, const Tensor& squares) {
  ops::lamb_measure(flat().weights, flat().gradients, moments_, table_, squares, options(step));
}

void Lamb::step_range(int64_t, const Tensor& gradients, const OptimizerStep& step) {
  DPTRAIN_CHECK(gradients.elements() == flat().elements(), "a step of {} of {} weights", gradients.elements(),
                flat().elements());
  ops::lamb_step(flat().weights, moments_, table_, step.squares, options(step));
}

std::vector<OptimizerState> Lamb::state() const {
  return {{"exp_avg", moments_.first}, {"exp_avg_sq", moments_.second}};
}

}  // namespace dptrain::optim
