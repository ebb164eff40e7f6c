#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "train/experiment.h"

namespace dptrain::train {

/// What to tell before a training on so many samples, a sentence each: that no step has as many as its batch, that the
/// learning rate never is what was asked for, as the training ends while it still warms up, or that it ends before a
/// validation; that a worker has more threads than there are cores; and what faults it is to suffer. `step`: the one
/// that it goes on after, 0 from its beginning.
std::vector<std::string> training_warnings(const Experiment& experiment, int64_t samples, int64_t step = 0);

}  // namespace dptrain::train
