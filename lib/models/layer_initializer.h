#pragma once

#include <optional>

#include "config/config_reader.h"
#include "nn/initializer.h"

namespace dptrain::models {

/// Reads the key `init` of a layer, which says how its weight begins: `{normal: 0.01}`, `xavier_uniform`,
/// `kaiming_normal`, `lecun_normal`. Empty for the layer's default, which `own` describes.
std::optional<nn::Initializer> read_layer_initializer(ConfigReader& options,
                                                      const char* own = "as PyTorch's layer does");

}  // namespace dptrain::models
