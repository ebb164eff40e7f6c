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
  std::string where = {};              ///< "a.yaml:7:7: model.layers[3].linear"
  std::string name = {};               ///< in the list around it: as written, or its kind and number; a repeat has none
  const LayerKind* kind = nullptr;     ///< of a layer that is a row of the table
  BuildLayer build = {};               ///< of a layer
  std::optional<TextSizes> text = {};  ///< of an embedding: what it takes
  int64_t times = 1;                   ///< of a repeat
  std::vector<LayerSpec> layers = {};  ///< of a residual or a repeat
  std::vector<LayerSpec> shortcut = {};  ///< of a residual; empty: its input as it is, or `padded`
  bool padded = false;                   ///< of a residual: its input, with channels of zeros behind its own
};

/// Reads the key `layers`: a list of layers, residuals and repeats. Notes layers that share a name.
std::vector<LayerSpec> read_layers(ConfigReader& model);

/// What text a list takes, by the embedding that it begins with; none: it takes images.
std::optional<TextSizes> text_of(const std::vector<LayerSpec>& layers);

/// A layer or residual at one of its places.
struct PlacedLayer {
  const LayerSpec* spec;
  std::string name;  ///< in the list around it, behind it the numbers of the repeats that it stands in: conv1.0
};

/// A list with its repeats written out. Borrows the specs.
std::vector<PlacedLayer> written_out(const std::vector<LayerSpec>& layers);

}  // namespace dptrain::models
