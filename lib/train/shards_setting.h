#pragma once

#include "config/config_reader.h"
#include "train/experiment.h"

namespace dptrain::train {

/// Reads the key `shards`, of an experiment whose devices, strategy, split and batch norms are read: the logical shards
/// of a batch, 0: none.
int read_shards(ConfigReader& config, const Experiment& experiment);

}  // namespace dptrain::train
