#include "optim/adam.h"

namespace dptrain::optim {
namespace {

Tensor zeros_like_weights(nn::Model& model) {
  return Tensor::zeros(model.device(), model.weights().shape(), {.purpose = MemoryPurpose::optimizer});
}

}  // namespace

Adam::Adam(nn::Model& model, const AdamSettings& settings)
    : settings_(settings), moments_{.first = zeros_like_weights(model), .second = zeros_like_weights(model)} {}

void Adam::step(nn::Model& model, const OptimizerStep& step) {
  ops::adam_step(model.weights(), model.gradients(), moments_,
                 {.learning_rate = step.learning_rate,
                  .step = step.number,
                  .beta1 = settings_.beta1,
                  .beta2 = settings_.beta2,
                  .epsilon = settings_.epsilon,
                  .weight_decay = settings_.weight_decay,
                  .decoupled = settings_.decoupled,
                  .copy = model.weight_copies(),
                  .control = step.control});
}

std::vector<OptimizerState> Adam::state() const {
  return {{"exp_avg", moments_.first}, {"exp_avg_sq", moments_.second}};
}

}  // namespace dptrain::optim
