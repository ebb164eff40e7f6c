#pragma once

#include "config/config_reader.h"
#include "train/experiment.h"

namespace dptrain::train {

/// Reads in what numbers, by what ways and in what orders a step of the experiment, whose devices and strategy have
/// been read, is computed: `precision`, `deterministic`, `convolution`, `recompute`, `batch_norm` and `shards`.
void read_arithmetic(ConfigReader& config, Experiment& experiment);

}  // namespace dptrain::train
