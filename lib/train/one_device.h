#pragma once

#include <string>

#include "config/config_node.h"
#include "train/experiment.h"

namespace dptrain::train {

/// Reduces a configuration with strategy `single` and several listed devices to one device; other configurations are
/// returned unchanged. The first device gets the threads of all devices, but no more than there are cores unless
/// `threads` is written. It also gets the batch of the whole list, without a split and without links. `default_name`
/// names the run if the configuration doesn't. Throws 78 for mistakes in the configuration.
ConfigNode on_one_device(ConfigNode config, const std::string& default_name);

/// The configuration under `single` on one device of `whole`, the experiment that was read from it. The device keeps
/// its threads and its share of the batch, at least one sample. So it computes what it computes in a step of a strategy
/// that shares batches.
ConfigNode on_device_alone(ConfigNode config, const Experiment& whole, size_t device);

}  // namespace dptrain::train
