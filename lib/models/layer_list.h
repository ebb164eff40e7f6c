#pragma once

#include <optional>
#include <string>
#include <vector>

#include "models/layer_table.h"

namespace dptrain::models {

/// A layer of a net as a configuration writes it.
struct LayerSpec {
  enum class Form {
    layer,     ///< a row of the table, or an embedding
    residual,  ///< layers(x) + shortcut(x)
    repeat,    ///< `layers` a number of times, one after the other
  };
  Form form = Form::layer;
  std::string where = {};  ///< "a.yaml:7:7: model.layers[3].linear"
  std::string name = {};   ///< the name in the list around it: as written, or its kind and number; a repeat has none
  const LayerKind* kind = nullptr;       ///< for a layer that is a row of the table
  BuildLayer build = {};                 ///< for a layer
  std::optional<TextSizes> text = {};    ///< for an embedding: the text that it takes
  int64_t times = 1;                     ///< for a repeat
  std::vector<LayerSpec> layers = {};    ///< for a residual or a repeat
  std::vector<LayerSpec> shortcut = {};  ///< for a residual; empty: its input as it is, or `padded`
  bool padded = false;                   ///< for a residual: the shortcut is its input, with channels of zeros appended
};

/// Reads the key `layers`: a list of layers, residuals and repeats. Notes layers that share a name.
std::vector<LayerSpec> read_layers(ConfigReader& model);

/// The sizes of the text that a list takes, from the embedding that it begins with; empty: it takes images.
std::optional<TextSizes> text_of(const std::vector<LayerSpec>& layers);

/// A layer or residual at one place in the list.
struct PlacedLayer {
  const LayerSpec* spec;
  std::string name;  ///< its name in the list around it, followed by the numbers of the repeats around it: conv1.0
};

/// Expands the repeats of a list. The result points into `layers`.
std::vector<PlacedLayer> written_out(const std::vector<LayerSpec>& layers);

}  // namespace dptrain::models
