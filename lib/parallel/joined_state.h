#pragma once

#include <vector>

#include "nn/model.h"
#include "parallel/training_state.h"

namespace dptrain::parallel {

/// The state of a whole model's training from those of its parts, in order: what one device with all of them has, in
/// its order. `models`: the parts.
TrainingState joined_state(std::vector<TrainingState> parts, const std::vector<const nn::Model*>& models);

}  // namespace dptrain::parallel
