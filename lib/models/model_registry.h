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

/// What the data set says of a model's input and output: images of some classes, or text. And where a model that can't
/// take that was chosen.
struct ModelInput {
  Shape image = {};  ///< [C, H, W]
  int64_t classes = 10;
  std::optional<TextSizes> text = {};
  std::string where = "model";  ///< "a.yaml:2:1: model lenet": the beginning of a message; a ModelSpec says it itself

  /// Columns of each output: the classes; or the vocabulary, of each predicted token, and two, of whether the second
  /// sentence follows the first.
  std::vector<int64_t> output_widths() const;
};

/// Throws 78 where the data set isn't one of images.
void require_images(const ModelInput& input);

/// Throws 78, beginning with `where`, unless `text`, what the data set has, is one of the vocabulary of `sizes` and of
/// at most so many tokens a sample.
void require_text(const std::string& where, const TextSizes& sizes, const std::optional<TextSizes>& text);

/// Makes one replica, not yet placed. Throws 78 where the model can't take such an input.
using BuildModel = std::function<std::unique_ptr<nn::Model>(const nn::LayerOptions&, const ModelInput&)>;

/// A model that a configuration names, its options read.
struct ModelSpec {
  std::string name;
  BuildModel build;
  /// Of a model of text: what it takes, which a data set of text adapts to.
  std::optional<TextSizes> text = {};
  ResolvedOptions options = {};  ///< what it was read with: with others its weights are those of another function
};

/// Reads the key `model`: a name or {name: ..., options}, or {layers: [...]}. One table of names stands behind it.
ModelSpec read_model(ConfigReader& config);

/// A model by its name alone, with the defaults of its options. Throws 78 for an unknown name, naming the known ones.
ModelSpec find_model(const std::string& name);

}  // namespace dptrain::models
