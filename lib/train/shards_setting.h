#pragma once

#include "config/config_reader.h"
#include "train/experiment.h"

namespace dptrain::train {

/// Reads the key `shards`: the number of logical shards of a batch; 0: none. The experiment's devices, strategy, split
/// and batch norms must have been read.
int read_shards(ConfigReader& config, const Experiment& experiment);

}  // namespace dptrain::train
