#include "optim/lars.h"

#include "ops/lars.h"
#include "ops/tensor_squares.h"

namespace dptrain::optim {

Lars::Lars(const FlatWeights& flat, const LarsSettings& settings)
    : Optimizer(flat), settings_(settings), table_(tensor_table_of(flat, settings.adapts_vectors)) {
  if (settings.momentum != 0) velocity_ = zeros_like_weights(flat);
}

void Lars::measure(const OptimizerStep&, const Tensor& squares) {
  ops::tensor_squares(flat().weights, flat().gradients, table_, squares);
}

void Lars::step_range(int64_t, const Tensor& gradients, const OptimizerStep& step) {
  ops::lars_step(flat().weights, gradients, velocity_, table_, step.squares,
                 {.learning_rate = step.learning_rate,
                  .momentum = settings_.momentum,
                  .weight_decay = settings_.weight_decay,
                  .nesterov = settings_.nesterov,
                  .trust_coefficient = settings_.trust_coefficient,
                  .epsilon = settings_.epsilon,
                  .copy = flat().copies,
                  .control = step.control});
}

std::vector<OptimizerState> Lars::state() const {
  if (!velocity_.defined()) return {};
  return {{"momentum_buffer", velocity_}};
}

}  // namespace dptrain::optim
