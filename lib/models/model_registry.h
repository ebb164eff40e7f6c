#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "config/config_reader.h"
#include "nn/layers.h"
#include "nn/model.h"

namespace dptrain::models {

/// What the data set says of a model's input and output.
struct ModelInput {
  Shape image;  ///< [C, H, W]
  int64_t classes = 10;
};

/// A model that a configuration names, its options read; `build` makes one replica, not yet placed.
struct ModelSpec {
  std::string name;
  std::function<std::unique_ptr<nn::Model>(const nn::LayerOptions&, const ModelInput&)> build;
};

/// Reads the key `model`: a name or {name: ..., options}. One table of names stands behind it.
ModelSpec read_model(ConfigReader& config);

/// The same model by name, with its default options. Throws 78 for an unknown name, naming the known ones.
ModelSpec find_model(const std::string& name);

}  // namespace dptrain::models
