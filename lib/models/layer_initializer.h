#pragma once

#include <optional>

#include "config/config_reader.h"
#include "nn/initializer.h"

namespace dptrain::models {

/// Reads the key `init` of a layer, how its weight begins: `{normal: 0.01}`, `xavier_uniform`, `kaiming_normal`; none
/// for the layer's own.
std::optional<nn::Initializer> read_layer_initializer(ConfigReader& options);

}  // namespace dptrain::models
