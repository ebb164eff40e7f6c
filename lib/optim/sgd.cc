#include "optim/sgd.h"

#include "ops/sgd.h"

namespace dptrain::optim {

Sgd::Sgd(nn::Model& model, const SgdSettings& settings) : settings_(settings) {
  if (settings.momentum != 0)
    velocity_ = Tensor::zeros(model.device(), model.weights().shape(), {.purpose = MemoryPurpose::optimizer});
}

void Sgd::step(nn::Model& model, const OptimizerStep& step) {
  ops::sgd_step(model.weights(), model.gradients(), velocity_,
                {.learning_rate = step.learning_rate,
                 .momentum = settings_.momentum,
                 .weight_decay = settings_.weight_decay,
                 .nesterov = settings_.nesterov,
                 .copy = model.weight_copies(),
                 .control = step.control});
}

std::vector<OptimizerState> Sgd::state() const {
  if (!velocity_.defined()) return {};
  return {{"momentum_buffer", velocity_}};
}

}  // namespace dptrain::optim
