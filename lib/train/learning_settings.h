#pragma once

#include "config/config_reader.h"
#include "train/experiment.h"

namespace dptrain::train {

/// Reads the keys that determine updates and the length of the training: `learning_rate` and `lr_rule`, `schedule`,
/// `epochs` or `steps`, `optimizer`, `clip_norm`, `label_smoothing` and `ema`. The experiment's batch size must have
/// been read, because `lr_rule` uses it.
void read_learning(ConfigReader& config, Experiment& experiment);

}  // namespace dptrain::train
