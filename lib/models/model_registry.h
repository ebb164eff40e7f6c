#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "config/config_reader.h"
#include "nn/layers.h"
#include "nn/model.h"

namespace dptrain::models {

/// Sizes of text.
struct TextSizes {
  int64_t vocabulary = 0;  ///< tokens are 0 to vocabulary - 1
  int64_t sequence = 0;    ///< tokens of a sample
};

/// What the data set says about a model's input and output (images in classes, or text), and where the model was
/// chosen, for messages.
struct ModelInput {
  Shape image = {};  ///< [C, H, W]
  int64_t classes = 10;
  std::optional<TextSizes> text = {};
  std::string where = "model";  ///< "a.yaml:2:1: model lenet": the beginning of a message; a ModelSpec fills it in

  /// The number of columns of each output. For images: the classes. For text: the vocabulary, for each predicted token,
  /// and 2, for whether the second sentence follows the first.
  std::vector<int64_t> output_widths() const;
};

/// Throws 78 where the data set isn't one of images.
void require_images(const ModelInput& input);

/// Throws 78, beginning with `where`, unless the data set has text (`text`) with the vocabulary of `sizes` and samples
/// of no more tokens than `sizes` allows.
void require_text(const std::string& where, const TextSizes& sizes, const std::optional<TextSizes>& text);

/// Makes one replica, not yet placed. Throws 78 if the model can't take this input.
using BuildModel = std::function<std::unique_ptr<nn::Model>(const nn::LayerOptions&, const ModelInput&)>;

/// A model that a configuration names, with its options read.
struct ModelSpec {
  std::string name;
  BuildModel build;
  /// For a model of text: the sizes that it takes. A data set of text adapts to them.
  std::optional<TextSizes> text = {};
  ResolvedOptions options = {};  ///< the options that it was read with; weights trained with one set of options belong
                                 ///< to another function under another set
};

/// Reads the key `model`: a name, {name: ..., options}, or {layers: [...]}. The names are in one table.
ModelSpec read_model(ConfigReader& config);

/// Finds a model by its name, with default options. Throws 78 for an unknown name and lists the known ones.
ModelSpec find_model(const std::string& name);

}  // namespace dptrain::models
