#include "train/init_setting.h"

#include <string>
#include <vector>

#include "config/f32_range.h"
#include "nn/initializer.h"

namespace dptrain::train {

namespace {

bool looks_like_a_path(const std::string& text) {
  return text.find('/') != std::string::npos || text.ends_with(".safetensors");
}

}  // namespace

InitSetting read_init(ConfigReader& config, uint64_t seed) {
  InitSetting init{.values = {.seed = seed}};
  std::optional<nn::Initializer> normal;
  const std::vector<ConfigChoice> choices = {
      {"model", "as the reference model does", {}},
      {"normal", "normal, with this standard deviation",
       [&](ConfigReader& options) {
         normal = nn::Initializer::normal(options.number(
             "normal", 0.01, {.min = 0, .max = kMostF32, .exclusive_min = true, .help = "the standard deviation"}));
       }},
      {"xavier_uniform", "uniform, scaled by the layer's inputs and outputs (Glorot and Bengio, 2010)", {}},
      {"kaiming_normal", "normal, scaled by the layer's outputs (He et al., 2015)", {}},
      {"lecun_normal",
       "truncated normal, scaled by the layer's inputs (LeCun et al., 1998), and biases 0, as in Flax",
       {}},
      {"from", "the tensors of a .safetensors file, by name",
       [&](ConfigReader& options) {
         const auto path = options.optional_path("from", "the file, a checkpoint or a run directory");
         const bool average =
             options.boolean("average", false, "take their moving average, which a run with ema has saved beside them");
         const auto except =
             options.texts("except", {}, "tensors that are drawn anyway, by their names or the names of their modules");
         if (path) init.weights = InitialWeights{.path = *path, .average = average, .except = except};
       }},
  };
  if (const std::string written = config.written("init"); looks_like_a_path(written)) {
    config.mistake("init", "expected the name of an initialization", "'" + written + "'",
                   "write init: {from: " + written + "} for the weights of a file or a run");
    config.optional_text("init");
    return init;
  }
  const std::string name = config.named("init", choices, "model", "initial weights");
  // The initializer of weights with two or more dimensions.
  std::optional<nn::Initializer>& drawn = init.values.weights;
  if (name == "xavier_uniform") drawn = nn::Initializer{nn::Initializer::Kind::xavier_uniform, 0};
  if (name == "kaiming_normal") drawn = nn::Initializer{nn::Initializer::Kind::kaiming_normal, 0};
  if (name == "lecun_normal") drawn = nn::Initializer{nn::Initializer::Kind::lecun_normal, 0};
  init.values.zero_biases = name == "lecun_normal";
  if (name == "normal") drawn = normal;
  if (!config.describing() && name == "from" && !init.weights)
    config.mistake("init", "expected a file of initial weights", "none", "write init: {from: FILE}");
  return init;
}

}  // namespace dptrain::train
