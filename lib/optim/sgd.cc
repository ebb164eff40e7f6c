#include "optim/sgd.h"

#include "ops/sgd.h"

namespace dptrain::optim {

Sgd::Sgd(const FlatWeights& flat, const SgdSettings& settings) : flat_(flat), settings_(settings) {
  if (settings.momentum != 0)
    velocity_ = Tensor::zeros(flat.weights.device(), flat.weights.shape(), {.purpose = MemoryPurpose::optimizer});
}

void Sgd::step(const OptimizerStep& step) {
  ops::sgd_step(flat_.weights, flat_.gradients, velocity_,
                {.learning_rate = step.learning_rate,
                 .momentum = settings_.momentum,
                 .weight_decay = settings_.weight_decay,
                 .nesterov = settings_.nesterov,
                 .copy = flat_.copies,
                 .control = step.control});
}

std::vector<OptimizerState> Sgd::state() const {
  if (!velocity_.defined()) return {};
  return {{"momentum_buffer", velocity_}};
}

}  // namespace dptrain::optim
