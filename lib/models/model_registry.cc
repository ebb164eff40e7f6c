#include "models/model_registry.h"

#include <array>

#include "base/error.h"
#include "base/nearest_name.h"
#include "models/layered_net.h"
#include "models/lenet.h"
#include "models/pyramidnet.h"
#include "models/resnet.h"

namespace dptrain::models {
namespace {

BuildModel read_layered_net(ConfigReader& options) {
  return [layers = read_layers(options)](const nn::LayerOptions& layer_options, const ModelInput& input) {
    return build_layered_net(layers, layer_options, input);
  };
}

std::unique_ptr<nn::Model> build_default_pyramidnet(const nn::LayerOptions& layer_options, const ModelInput& input) {
  return build_pyramidnet({}, layer_options, input);
}

BuildModel read_pyramid(ConfigReader& options) {
  return [pyramid = read_pyramidnet(options)](const nn::LayerOptions& layer_options, const ModelInput& input) {
    return build_pyramidnet(pyramid, layer_options, input);
  };
}

struct Row {
  const char* name;
  const char* help;
  /// By the defaults of its options; null where they alone say how.
  std::unique_ptr<nn::Model> (*build)(const nn::LayerOptions&, const ModelInput&);
  BuildModel (*read)(ConfigReader& options);  ///< null where there are none
};

/// The table of models.
constexpr std::array<Row, 4> kModels = {{
    {"lenet", "two 5x5 convolutions and two linear layers; 129,388 parameters", build_lenet, nullptr},
    {"resnet18", "the ResNet-18 of Dive into Deep Learning, with a 3x3 stem; 11 million parameters", build_resnet18,
     nullptr},
    {"pyramidnet", "the PyramidNet of alpha 270 with 51 blocks; 24 million parameters by default",
     build_default_pyramidnet, read_pyramid},
    {"layers", "a net of your own, layer by layer", nullptr, read_layered_net},
}};

}  // namespace

ModelSpec read_model(ConfigReader& config) {
  ModelSpec spec;
  std::vector<ConfigChoice> choices;
  for (const Row& row : kModels)
    choices.push_back({row.name, row.help, [&](ConfigReader& options) {
                         spec.build = row.read != nullptr ? row.read(options) : BuildModel(row.build);
                       }});
  spec.name = config.named("model", choices, std::nullopt, "the network to train");
  return spec;
}

ModelSpec find_model(const std::string& name) {
  std::vector<std::string> known;
  for (const Row& row : kModels) {
    if (row.build == nullptr) continue;
    if (name == row.name) return {.name = name, .build = row.build};
    known.emplace_back(row.name);
  }
  throw Error(ExitCode::config, Mistake{.where = "model",
                                        .expected = "expected a known model",
                                        .got = "'" + name + "'",
                                        .advice = suggestion(name, known)});
}

}  // namespace dptrain::models
