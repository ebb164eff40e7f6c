#include "optim/sgd.h"

#include "ops/sgd.h"

namespace dptrain::optim {

Sgd::Sgd(const FlatWeights& flat, const SgdSettings& settings)
    : Optimizer(flat), settings_(settings), groups_(update_groups_of(flat)) {
  if (settings.momentum != 0) velocity_ = zeros_like_weights(flat);
}

void Sgd::step_range(int64_t begin, const Tensor& gradients, const OptimizerStep& step) {
  const auto range = [&](const Tensor& whole) { return range_like(gradients, whole, begin); };
  ops::sgd_step(range(flat().weights), gradients, range(velocity_),
                {.learning_rate = step.learning_rate,
                 .momentum = settings_.momentum,
                 .weight_decay = settings_.weight_decay,
                 .nesterov = settings_.nesterov,
                 .copy = range(flat().copies),
                 .control = step.control,
                 .groups = groups_.range(begin, gradients.elements())});
}

std::vector<OptimizerState> Sgd::state() const {
  if (!velocity_.defined()) return {};
  return {{"momentum_buffer", velocity_}};
}

}  // namespace dptrain::optim
