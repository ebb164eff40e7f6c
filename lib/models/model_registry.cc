#include "models/model_registry.h"

#include <array>

#include "base/error.h"
#include "base/nearest_name.h"
#include "models/lenet.h"
#include "models/resnet.h"

namespace dptrain::models {
namespace {

using Build = std::unique_ptr<nn::Model> (*)(const nn::LayerOptions&, const ModelInput&);

struct Row {
  const char* name;
  const char* help;
  Build build;
};

/// The table of models.
constexpr std::array<Row, 2> kModels = {{
    {"lenet", "two 5x5 convolutions and two linear layers; 129,388 parameters", build_lenet},
    {"resnet18", "the ResNet-18 of Dive into Deep Learning, with a 3x3 stem; 11 million parameters", build_resnet18},
}};

ModelSpec spec_of(const std::string& name) {
  for (const Row& row : kModels)
    if (name == row.name) return {.name = name, .build = row.build};
  return {};
}

}  // namespace

ModelSpec read_model(ConfigReader& config) {
  std::vector<ConfigChoice> choices;
  for (const Row& row : kModels) choices.push_back({row.name, row.help, {}});
  return spec_of(config.named("model", choices, std::nullopt, "the network to train"));
}

ModelSpec find_model(const std::string& name) {
  const ModelSpec spec = spec_of(name);
  if (spec.build) return spec;
  std::vector<std::string> known;
  for (const Row& row : kModels) known.emplace_back(row.name);
  throw Error(ExitCode::config, Mistake{.where = "model",
                                        .expected = "expected a known model",
                                        .got = "'" + name + "'",
                                        .advice = suggestion(name, known)});
}

}  // namespace dptrain::models
