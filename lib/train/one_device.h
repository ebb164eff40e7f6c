#pragma once

#include <string>

#include "config/config_node.h"

namespace dptrain::train {

/// The configuration with its strategy made `single` by nothing but fewer devices: where it names `single` and lists
/// several devices, it gets the first of them with the threads of all, and the batch of the whole list, which nothing
/// splits and no link carries. Others are left as they are. `default_name` names the run where the configuration
/// doesn't. Throws 78 for mistakes in it.
ConfigNode on_one_device(ConfigNode config, const std::string& default_name);

}  // namespace dptrain::train
