#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "train/experiment.h"

namespace dptrain::train {

/// Warnings to show before a training run with `samples` samples, one sentence each. `step`: the step that it goes on
/// after, 0 at its beginning. The warnings are about:
/// - a batch size larger than the data set
/// - a learning rate that never has its full value or its planned course, because warm-up or milestones don't fit the
///   length
/// - a training run that ends before its first validation
/// - weight decay factors without a weight decay
/// - CPU workers with more threads than there are cores
/// - the faults that the training is to suffer
std::vector<std::string> training_warnings(const Experiment& experiment, int64_t samples, int64_t step = 0);

}  // namespace dptrain::train
