#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "comm/communicator.h"
#include "nn/model.h"
#include "parallel/training_state.h"

namespace dptrain::parallel {

/// The training state of consecutive stages of a model.
struct PartState {
  TrainingState state;
  size_t parameters = 0;  ///< trained ones of its own, which the state's lists begin with
  size_t frozen = 0;      ///< parameters, which follow them in the model's list
  size_t states = 0;      ///< running statistics, which follow these
};

/// `state`, that of all stages that were placed of a model, by ranges of them.
std::vector<PartState> state_by_range(const nn::Model& model, TrainingState state);

/// The state of a whole model's training from those of its parts, in order: what one device with all of them has, in
/// its order.
TrainingState joined_state(std::vector<PartState> parts);

/// Sends a part's state to another rank, which receives it. `communicator`: over host memory. Both block.
void send_part_state(Communicator& communicator, PartState& part, int to);
PartState receive_part_state(Communicator& communicator, int from);

}  // namespace dptrain::parallel
