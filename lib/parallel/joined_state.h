#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "comm/communicator.h"
#include "nn/model.h"
#include "parallel/training_state.h"

namespace dptrain::parallel {

/// The training state of a range of consecutive stages of a model.
struct PartState {
  TrainingState state;
  size_t parameters = 0;  ///< trained parameters of the range itself; the state's lists begin with them
  size_t frozen = 0;      ///< frozen parameters, which follow the trained ones in the model's list
  size_t states = 0;      ///< running statistics, which follow the frozen parameters
};

/// Cuts `state`, which covers all placed stages of a model, into the states of the ranges that were placed.
std::vector<PartState> state_by_range(const nn::Model& model, TrainingState state);

/// Joins the states of a model's parts, given in order. The result is what one device with the whole model has, in the
/// order of that device.
TrainingState joined_state(std::vector<PartState> parts);

/// Sends a part's state to rank `to`, which receives it. `communicator`: over host memory. Blocks, and so does
/// `receive_part_state`.
void send_part_state(Communicator& communicator, PartState& part, int to);
PartState receive_part_state(Communicator& communicator, int from);

}  // namespace dptrain::parallel
