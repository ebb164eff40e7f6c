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

/// Makes one replica, not yet placed. Throws 78 where the model can't take such an input.
using BuildModel = std::function<std::unique_ptr<nn::Model>(const nn::LayerOptions&, const ModelInput&)>;

/// A model that a configuration names, its options read.
struct ModelSpec {
  std::string name;
  BuildModel build;
};

/// Reads the key `model`: a name or {name: ..., options}, or {layers: [...]}. One table of names stands behind it.
ModelSpec read_model(ConfigReader& config);

/// A model by its name alone, with the defaults of its options. Throws 78 for an unknown name, naming the known ones.
ModelSpec find_model(const std::string& name);

}  // namespace dptrain::models
