// What a replica carries from step to step, in the form that checkpoints have.
#include <algorithm>
#include <iterator>

#include "nn/named_values.h"
#include "parallel/replica.h"
#include "parallel/sharded_replica.h"

namespace dptrain::parallel {

std::vector<optim::OptimizerState> Replica::optimizer_state() const {
  return optimizer_ != nullptr ? optimizer_->state() : std::vector<optim::OptimizerState>();
}

TrainingState Replica::training_state(const nn::ReadParameter& read) {
  TrainingState state{.model = nn::state_dict(*model_, read), .optimizer = {}, .average = {}, .loss_scale = {}};
  for (const optim::OptimizerState& kept : optimizer_state()) {
    auto values = nn::values_by_parameter(*model_, kept.values, kept.name + ".");
    std::ranges::move(values, std::back_inserter(state.optimizer));
  }
  if (average_) state.average = nn::values_by_parameter(*model_, average_->values());
  if (loss_scale_) state.loss_scale = loss_scale_->numbers();
  return state;
}

void Replica::restore(const TrainingState& state) {
  if (!state.model.empty() && sharded_ == nullptr) nn::load_state_dict(*model_, state.model);
  if (!state.optimizer.empty())
    for (const optim::OptimizerState& kept : optimizer_state())
      nn::load_by_parameter(*model_, kept.values, state.optimizer, kept.name + ".");
  if (average_) {
    if (!state.average.empty())
      nn::load_by_parameter(*model_, average_->values(), state.average);
    else if (!state.model.empty())
      average_->restart(model_->weights());
  }
  if (loss_scale_ && state.loss_scale) loss_scale_->set(*state.loss_scale);
}

}  // namespace dptrain::parallel
