#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "config/config_reader.h"
#include "nn/layers.h"

namespace dptrain::models {

/// Where a layer of a net stands, and what arrives there.
struct LayerSite {
  const nn::LayerOptions& options;
  std::string where;   ///< "a.yaml:7:7: model.layers[3].linear (fc1)": the beginning of a message about the layer
  Shape input;         ///< of one sample: [C, H, W], or [F] behind flatten
  int64_t classes;     ///< of the data set
  bool relu;           ///< a ReLU follows that the layer computes in its pass; only where its kind says that it can
  uint32_t& dropouts;  ///< the dropout layers before this one; each takes the number and counts itself
};

struct BuiltLayer {
  std::unique_ptr<nn::Module> module;
  Shape output;  ///< of one sample
};

/// Makes one layer, its options read, for what arrives at its place. Throws 78 where it can't take that.
using BuildLayer = std::function<BuiltLayer(const LayerSite&)>;

/// What a layer computes in its own pass over memory, beside itself.
enum class LayerPass {
  alone,
  with_relu,          ///< a ReLU that follows
  with_sum_and_relu,  ///< the sum of a residual block that it ends, and the ReLU that follows
  is_relu,            ///< the ReLU that others take in
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

/// "[N, 20, 24, 24]" of [20, 24, 24].
std::string batch_text(const Shape& sample);

}  // namespace dptrain::models
