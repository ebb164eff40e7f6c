#include "models/layer_initializer.h"

#include <string>
#include <vector>

#include "config/f32_range.h"

namespace dptrain::models {

std::optional<nn::Initializer> read_layer_initializer(ConfigReader& options, const char* own) {
  using Kind = nn::Initializer::Kind;
  std::optional<nn::Initializer> initializer;
  const auto choose = [&](Kind kind) { return [&, kind](ConfigReader&) { initializer = nn::Initializer{kind, 0}; }; };
  const std::vector<ConfigChoice> choices = {
      {"default", own, {}},
      {"normal", "normal, with this standard deviation",
       [&](ConfigReader& normal) {
         initializer = nn::Initializer::normal(normal.number(
             "normal", 0.01, {.min = 0, .max = kMostF32, .exclusive_min = true, .help = "the standard deviation"}));
       }},
      {"xavier_uniform", "uniform, scaled by inputs and outputs (Glorot and Bengio, 2010)",
       choose(Kind::xavier_uniform)},
      {"kaiming_normal", "normal, scaled by outputs (He et al., 2015)", choose(Kind::kaiming_normal)},
      {"lecun_normal", "truncated normal, scaled by inputs (LeCun et al., 1998)", choose(Kind::lecun_normal)},
  };
  options.named("init", choices, "default", "initial weight");
  return initializer;
}

}  // namespace dptrain::models
