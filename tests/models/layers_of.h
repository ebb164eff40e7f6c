#pragma once

#include <string>
#include <vector>

#include "config/config_document.h"
#include "config/config_reader.h"
#include "models/layer_list.h"

namespace dptrain::models {

/// The layers that `layers: <written>` describes in a file a.yaml.
inline std::vector<LayerSpec> layers_of(const std::string& written) {
  std::vector<LayerSpec> layers;
  const ConfigSession session(parse_config("layers: " + written + "\n", "a.yaml"),
                              [&](ConfigReader& config) { layers = read_layers(config); });
  return layers;
}

}  // namespace dptrain::models
