#include "models/model_registry.h"

#include <fmt/format.h>

#include <array>
#include <utility>

#include "base/error.h"
#include "base/nearest_name.h"
#include "models/bert.h"
#include "models/layered_net.h"
#include "models/lenet.h"
#include "models/pyramidnet.h"
#include "models/resnet.h"

namespace dptrain::models {
namespace {

ModelSpec read_layered_net(ConfigReader& options) {
  const std::vector<LayerSpec> layers = read_layers(options);
  return {.name = "layers",
          .build = [layers](const nn::LayerOptions& layer_options,
                            const ModelInput& input) { return build_layered_net(layers, layer_options, input); },
          .text = text_of(layers)};
}

std::unique_ptr<nn::Model> build_default_pyramidnet(const nn::LayerOptions& layer_options, const ModelInput& input) {
  return build_pyramidnet({}, layer_options, input);
}

ModelSpec read_pyramid(ConfigReader& options) {
  return {
      .name = "pyramidnet",
      .build = [pyramid = read_pyramidnet(options)](const nn::LayerOptions& layer_options, const ModelInput& input) {
        require_images(input);
        return build_pyramidnet(pyramid, layer_options, input);
      }};
}

struct Row {
  const char* name;
  const char* help;
  /// Builds the model with default options; null if the model has no defaults.
  std::unique_ptr<nn::Model> (*build)(const nn::LayerOptions&, const ModelInput&);
  ModelSpec (*read)(ConfigReader& options);  ///< null if the model has no options
};

/// The table of models.
constexpr std::array<Row, 5> kModels = {{
    {"lenet", "two 5x5 convolutions and two linear layers; 129,388 parameters", build_lenet, nullptr},
    {"resnet18", "the ResNet-18 of Dive into Deep Learning, with a 3x3 stem; 11 million parameters", build_resnet18,
     nullptr},
    {"pyramidnet", "the PyramidNet of alpha 270 with 51 blocks; 24 million parameters by default",
     build_default_pyramidnet, read_pyramid},
    {"bert", "BERT, learning masked tokens and next sentences; 8.5 million parameters", nullptr, read_bert},
    {"layers", "a net of your own, layer by layer", nullptr, read_layered_net},
}};

/// The spec of a model with default options.
ModelSpec by_name(const Row& row) {
  return {.name = row.name, .build = [&row](const nn::LayerOptions& options, const ModelInput& input) {
            require_images(input);
            return row.build(options, input);
          }};
}

}  // namespace

std::vector<int64_t> ModelInput::output_widths() const {
  return text ? std::vector<int64_t>{text->vocabulary, 2} : std::vector<int64_t>{classes};
}

void require_images(const ModelInput& input) {
  if (!input.text) return;
  throw Error(
      ExitCode::config,
      Mistake{.where = input.where,
              .expected = "needs a data set of images",
              .got = "text",
              .advice = "choose another data set, model: bert, or a list of layers that begins with embedding"});
}

void require_text(const std::string& where, const TextSizes& sizes, const std::optional<TextSizes>& text) {
  const auto refuse = [&](std::string expected, std::string got, std::string advice) {
    throw Error(ExitCode::config, Mistake{where, std::move(expected), std::move(got), std::move(advice)});
  };
  if (!text) refuse("needs a data set of text", "images", "write dataset: text, or dataset: synthetic");
  if (text->vocabulary != sizes.vocabulary)
    refuse(fmt::format("needs a text with a vocabulary of {}", sizes.vocabulary), fmt::format("{}", text->vocabulary),
           "give model and data set the same vocabulary");
  if (text->sequence > sizes.sequence)
    refuse(fmt::format("takes at most {} tokens per sample", sizes.sequence), fmt::format("{}", text->sequence),
           "give the model a larger seq, or the data set a smaller sequence");
}

ModelSpec read_model(ConfigReader& config) {
  ModelSpec spec;
  std::vector<ConfigChoice> choices;
  for (const Row& row : kModels)
    choices.push_back({row.name, row.help,
                       [&](ConfigReader& options) { spec = row.read != nullptr ? row.read(options) : by_name(row); }});
  spec.name = config.named("model", choices, std::nullopt, "the network to train");
  if (!config.describing()) spec.options = config.resolved_options("model");
  spec.build = [build = std::move(spec.build), where = fmt::format("{} {}", config.where("model"), spec.name)](
                   const nn::LayerOptions& options, ModelInput input) {
    input.where = where;
    return build(options, input);
  };
  return spec;
}

ModelSpec find_model(const std::string& name) {
  std::vector<std::string> known;
  for (const Row& row : kModels) {
    if (row.build == nullptr) continue;
    if (name == row.name) return by_name(row);
    known.emplace_back(row.name);
  }
  throw Error(ExitCode::config, Mistake{.where = "model",
                                        .expected = "expected a known model",
                                        .got = "'" + name + "'",
                                        .advice = suggestion(name, known)});
}

}  // namespace dptrain::models
