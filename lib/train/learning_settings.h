#pragma once

#include "config/config_reader.h"
#include "train/experiment.h"

namespace dptrain::train {

/// Reads rates, length, optimizer, and what else bears on an update: `learning_rate` and `lr_rule`, by the experiment's
/// batch, which must have been read, `schedule`, `epochs` or `steps`, `optimizer`, `clip_norm`, `label_smoothing` and
/// `ema`.
void read_learning(ConfigReader& config, Experiment& experiment);

}  // namespace dptrain::train
