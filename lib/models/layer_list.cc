#include "models/layer_list.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "models/text_layers.h"

namespace dptrain::models {
namespace {

constexpr int64_t kMostRepetitions = 1000;
/// The limit counts layers with repeats written out. It is far more than any net needs, and that many layers are built
/// in no time.
constexpr double kMostLayers = 4096;

/// How many layers of each kind a list has so far, by the stem of their names. Repeats continue the counts of the list
/// around them; a shortcut continues those of its residual's layers.
using LayerCounts = std::map<std::string, int>;

/// Whether a name may begin the names of parameters: letters, digits, '_' and '-', and dots between them.
bool is_layer_name(const std::string& name) {
  const auto is_allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' ||
           c == '.';
  };
  return !name.empty() && std::ranges::all_of(name, is_allowed) && name.front() != '.' && name.back() != '.' &&
         name.find("..") == std::string::npos;
}

/// The name as written, or the stem and the layer's number among its kind. Named layers are counted too, so that naming
/// one doesn't rename the others.
std::string read_name(ConfigReader& options, const std::string& stem, LayerCounts& counts) {
  const std::string otherwise = fmt::format("{}{}", stem, ++counts[stem]);
  const auto name =
      options.optional_text("name", "what the names of its parameters begin with; by default kind and number");
  if (name && !options.describing() && !is_layer_name(*name))
    options.mistake("name", "expected letters, digits, '_' and '-', with dots between them", fmt::format("'{}'", *name),
                    fmt::format("write for instance name: {}", otherwise));
  return name.value_or(otherwise);
}

constexpr NamedListRule kLayerList = {.definition = "layers", .example = "[flatten, linear: classes]"};

std::vector<LayerSpec> read_list(ConfigReader& config, std::string_view key, LayerCounts& counts,
                                 NamedListRule rule = kLayerList);

LayerSpec read_layer(ConfigReader& options, const LayerKind& kind, LayerCounts& counts) {
  LayerSpec layer{.where = options.where(), .kind = &kind};
  layer.build = kind.read(options);
  layer.name = read_name(options, kind.stem, counts);
  return layer;
}

LayerSpec read_embedding(ConfigReader& options, LayerCounts& counts) {
  LayerSpec embedding{.where = options.where()};
  TextEmbedding read = read_text_embedding(options);
  embedding.build = std::move(read.build);
  embedding.text = read.text;
  embedding.name = read_name(options, "embedding", counts);
  return embedding;
}

LayerSpec read_residual(ConfigReader& options, LayerCounts& counts) {
  LayerSpec residual{.form = LayerSpec::Form::residual, .where = options.where()};
  residual.name = read_name(options, "residual", counts);
  LayerCounts inside;
  residual.layers = read_list(options, "layers", inside);
  residual.padded = options.word("shortcut", "padded", false);
  if (!residual.padded)
    residual.shortcut = read_list(options, "shortcut", inside,
                                  {.definition = kLayerList.definition,
                                   .required = false,
                                   .help = "what is added; by default the block's input, to which padded adds channels "
                                           "of zeros, averaging it over 2x2 where the layers halve the image",
                                   .example = "[relu]"});
  return residual;
}

LayerSpec read_repeat(ConfigReader& options, LayerCounts& counts) {
  LayerSpec repeat{.form = LayerSpec::Form::repeat, .where = options.where()};
  repeat.times = options.integer("times", std::nullopt,
                                 {.min = 1, .max = kMostRepetitions, .help = "how many times the layers are repeated"});
  repeat.layers = read_list(options, "layers", counts);
  return repeat;
}

std::vector<LayerSpec> read_list(ConfigReader& config, std::string_view key, LayerCounts& counts, NamedListRule rule) {
  std::vector<LayerSpec> layers;
  std::vector<ConfigChoice> choices;
  for (const LayerKind& kind : layer_kinds())
    choices.push_back({kind.name, kind.help,
                       [&](ConfigReader& options) { layers.push_back(read_layer(options, kind, counts)); },
                       kind.shorthand});
  choices.push_back({"embedding", "tokens as vectors, at the beginning of a net of text",
                     [&](ConfigReader& options) { layers.push_back(read_embedding(options, counts)); }, "features"});
  choices.push_back({"residual", "layers(x) + shortcut(x)",
                     [&](ConfigReader& options) { layers.push_back(read_residual(options, counts)); }, "layers"});
  choices.push_back({"repeat", "the same layers several times, each with weights of its own",
                     [&](ConfigReader& options) { layers.push_back(read_repeat(options, counts)); }, "times"});
  config.named_list(key, choices, rule);
  return layers;
}

double count_of(const std::vector<LayerSpec>& layers) {
  double count = 0;
  for (const LayerSpec& layer : layers)
    count += static_cast<double>(layer.times) *
             ((layer.form == LayerSpec::Form::repeat ? 0 : 1) + count_of(layer.layers) + count_of(layer.shortcut));
  return count;
}

void write_out(const std::vector<LayerSpec>& layers, const std::string& numbers, std::vector<PlacedLayer>& placed) {
  for (const LayerSpec& layer : layers) {
    if (layer.form != LayerSpec::Form::repeat) {
      placed.push_back({&layer, layer.name + numbers});
      continue;
    }
    for (int64_t i = 0; i < layer.times; ++i) write_out(layer.layers, fmt::format("{}.{}", numbers, i), placed);
  }
}

/// Finds layers whose parameters would share a name.
class NameCheck {
 public:
  explicit NameCheck(ConfigReader& model) : model_(model) {}

  void check(const std::vector<LayerSpec>& layers, const std::string& prefix) {
    for (const auto& [layer, name] : written_out(layers)) {
      const auto [holder, is_new] = holders_.emplace(prefix + name, layer);
      // One message per layer, however often it is repeated.
      if (!is_new && reported_.insert(layer).second)
        model_.mistake("layers", "expected a name of its own for each layer",
                       fmt::format("{} for {} and for {}", prefix + name, holder->second->where, layer->where),
                       "write another name: in one of them");
      check(layer->layers, prefix + name + ".");
      check(layer->shortcut, prefix + name + ".");
    }
  }

 private:
  ConfigReader& model_;
  std::map<std::string, const LayerSpec*> holders_;
  std::set<const LayerSpec*> reported_;
};

}  // namespace

std::vector<LayerSpec> read_layers(ConfigReader& model) {
  LayerCounts counts;
  std::vector<LayerSpec> layers =
      read_list(model, "layers", counts,
                {.definition = kLayerList.definition,
                 .help = "the net, from the image to the classes, or from the tokens to a pretraining_head",
                 .example = kLayerList.example});
  if (model.describing()) return layers;
  if (const double count = count_of(layers); count > kMostLayers)
    model.mistake("layers", fmt::format("expected at most {} layers, counting every repeat", kMostLayers),
                  fmt::format("{}", count), "repeat less often");
  else
    NameCheck(model).check(layers, "");
  return layers;
}

std::optional<TextSizes> text_of(const std::vector<LayerSpec>& layers) {
  return layers.empty() ? std::nullopt : layers.front().text;
}

std::vector<PlacedLayer> written_out(const std::vector<LayerSpec>& layers) {
  std::vector<PlacedLayer> placed;
  write_out(layers, "", placed);
  return placed;
}

}  // namespace dptrain::models
