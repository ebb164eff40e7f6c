#pragma once

#include <string>

#include "config/config_node.h"
#include "train/experiment.h"

namespace dptrain::train {

/// The configuration with its strategy made `single` by nothing but fewer devices: where it names `single` and lists
/// several devices, it gets the first of them with the threads of all, no more than there are cores unless `threads` is
/// written, and the batch of the whole list, which nothing splits and no link carries. Others are left as they are.
/// `default_name` names the run where the configuration doesn't. Throws 78 for mistakes in it.
ConfigNode on_one_device(ConfigNode config, const std::string& default_name);

/// The configuration under `single` on one device of `whole`, which was read from it, with its threads and its share of
/// the batch, one sample at least: what it computes in a step of strategies that share batches.
ConfigNode on_device_alone(ConfigNode config, const Experiment& whole, size_t device);

}  // namespace dptrain::train
