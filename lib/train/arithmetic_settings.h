#pragma once

#include "config/config_reader.h"
#include "train/experiment.h"

namespace dptrain::train {

/// Reads how a step of the experiment computes: `precision`, `deterministic`, `convolution`, `recompute`, `batch_norm`
/// and `shards`. The experiment's devices and strategy must have been read.
void read_arithmetic(ConfigReader& config, Experiment& experiment);

}  // namespace dptrain::train
