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

/// What the layers of a net share, in the order of the list.
struct NetSoFar {
  uint32_t dropouts = 0;       ///< the layers that drop before this one; each takes the number and counts itself
  Parameter* words = nullptr;  ///< the embedding's, [V, E], of a net of text
  SelfAttention* last_attention = nullptr;
};

/// Where a layer of a net stands, and what arrives there.
struct LayerSite {
  const nn::LayerOptions& options;
  std::string where;  ///< "a.yaml:7:7: model.layers[3].linear (fc1)": the beginning of a message about the layer
  std::string name;   ///< "fc1", what its parameters' names begin with
  Shape input;        ///< of one sample: [C, H, W], [F] behind flatten, [S, E] behind embedding; [S] tokens
  bool is_first;      ///< of the whole net
  bool is_last;
  int64_t classes;                       ///< of a data set of images
  const std::optional<TextSizes>& text;  ///< what a data set of text has
  bool relu;  ///< a ReLU follows that the layer computes in its pass; only where its kind says that it can
  bool gelu;  ///< likewise a GELU
  NetSoFar& net;
};

struct BuiltLayer {
  std::unique_ptr<nn::Module> module;
  Shape output;                         ///< of one sample
  std::unique_ptr<nn::Head> head = {};  ///< in place of a module: the end of a net of several outputs
};

/// Makes one layer, its options read, for what arrives at its place. Throws 78 where it can't take that.
using BuildLayer = std::function<BuiltLayer(const LayerSite&)>;

/// What a layer computes in its own pass over memory, beside itself.
enum class LayerPass {
  alone,
  with_relu_and_max_pool,  ///< a ReLU that follows, a max pool that follows, or both
  with_relu_or_gelu,       ///< either that follows
  with_sum_and_relu,       ///< the sum of a residual block that it ends, and the ReLU that follows
  with_sum_before,         ///< the sum of a residual block that it follows, and the dropout that ends its layers
  is_relu,                 ///< the ReLU that others take in
  is_gelu,                 ///< likewise the GELU
  is_max_pool,             ///< likewise the max pool; takes in a ReLU that follows
};

/// A row of the table of layers.
struct LayerKind {
  const char* name;       ///< in a configuration
  const char* stem;       ///< of the names that such layers get: fc1, fc2
  const char* shorthand;  ///< the option that may stand for all of them, "" for none
  const char* help;
  LayerPass pass;
  BuildLayer (*read)(ConfigReader& options);
};

/// The table of layers.
std::span<const LayerKind> layer_kinds();

/// Throws 78: "<where>: <expected>, got <input>; <advice>".
[[noreturn]] void refuse(const LayerSite& site, const std::string& expected, const std::string& advice);

/// "[N, 20, 24, 24]" of [20, 24, 24].
std::string batch_text(const Shape& sample);

}  // namespace dptrain::models
