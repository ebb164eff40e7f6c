#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "config/config_reader.h"
#include "models/model_registry.h"
#include "nn/layers.h"

namespace dptrain::models {

class SelfAttention;

/// State that the layers of a net share while they are built, in the order of the list.
struct NetSoFar {
  uint32_t dropouts = 0;       ///< number of dropout layers so far; a layer that drops takes this number and adds one
  Parameter* words = nullptr;  ///< the embedding's weights, [V, E], in a net of text
  SelfAttention* last_attention = nullptr;
};

/// The place of a layer in a net, and the input that arrives there.
struct LayerSite {
  const nn::LayerOptions& options;
  std::string where;  ///< "a.yaml:7:7: model.layers[3].linear (fc1)": the beginning of a message about the layer
  std::string name;   ///< "fc1": the beginning of its parameters' names
  Shape input;        ///< of one sample: [C, H, W], [F] after flatten, [S, E] after embedding; [S] for tokens
  bool is_first;      ///< of the whole net
  bool is_last;
  int64_t classes;                       ///< the classes of a data set of images
  const std::optional<TextSizes>& text;  ///< the sizes of a data set of text
  bool relu;  ///< a ReLU follows, which the layer computes in its own pass; only for kinds that can
  bool gelu;  ///< a GELU follows, which the layer computes in its own pass; only for kinds that can
  NetSoFar& net;
};

struct BuiltLayer {
  std::unique_ptr<nn::Module> module;
  Shape output;                         ///< of one sample
  std::unique_ptr<nn::Head> head = {};  ///< used instead of a module: the end of a net with several outputs
};

/// Makes one layer, with its options read, for the input at its place. Throws 78 if the layer can't take that input.
using BuildLayer = std::function<BuiltLayer(const LayerSite&)>;

/// What a layer computes in its own pass over memory, besides itself.
enum class LayerPass {
  alone,
  with_relu_and_max_pool,  ///< a ReLU that follows, a max pool that follows, or both
  with_relu_or_gelu,       ///< a ReLU or a GELU that follows
  with_sum_and_relu,       ///< the sum of a residual block that it ends, and the ReLU that follows
  with_sum_before,  ///< the sum of a residual block before it, and the dropout that ends the layers of that block
  is_relu,          ///< is the ReLU that other layers take in
  is_gelu,          ///< is the GELU that other layers take in
  is_max_pool,      ///< is the max pool that a convolution takes in; itself takes in a ReLU that follows
};

/// A row of the table of layers.
struct LayerKind {
  const char* name;       ///< its name in a configuration
  const char* stem;       ///< the beginning of the default names of these layers: fc1, fc2
  const char* shorthand;  ///< the option that can be given instead of a list of options; "": none
  const char* help;
  LayerPass pass;
  BuildLayer (*read)(ConfigReader& options);
};

/// The table of layers.
std::span<const LayerKind> layer_kinds();

/// Throws 78: "<where>: <expected>, got <input>; <advice>".
[[noreturn]] void refuse(const LayerSite& site, const std::string& expected, const std::string& advice);

/// The text of a batch's shape: "[N, 20, 24, 24]" for [20, 24, 24].
std::string batch_text(const Shape& sample);

}  // namespace dptrain::models
