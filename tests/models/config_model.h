#pragma once

#include <string>

#include "config/config_document.h"
#include "config/config_reader.h"
#include "models/model_registry.h"
#include "support/source_tree.h"

namespace dptrain::models {

/// The model of a configuration in configs/.
inline ModelSpec model_of(const std::string& config) {
  ConfigNode root = load_config(testing::source_file("configs/" + config));
  std::erase_if(root.map, [](const auto& entry) { return entry.first != "model"; });
  ModelSpec spec;
  const ConfigSession session(root, [&](ConfigReader& reader) { spec = read_model(reader); });
  return spec;
}

}  // namespace dptrain::models
