#include "models/layered_net.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <span>
#include <utility>

#include "base/error.h"
#include "models/residual_layers.h"
#include "models/self_attention.h"
#include "nn/stateless_layers.h"

namespace dptrain::models {
namespace {

/// The most values that a layer may make of one sample; keeps every product of sizes within 64 bits.
constexpr double kMostElements = 1 << 30;

/// A built list of layers.
struct Chain {
  NamedLayers parts = {};
  Shape output;
  std::unique_ptr<nn::Head> head = {};
  bool ends_in_norm = false;  ///< the last part is a batch norm that can add a residual before its ReLU
};

bool has_pass(const PlacedLayer& layer, LayerPass pass) {
  return layer.spec->kind != nullptr && layer.spec->kind->pass == pass;
}

bool takes_relu(const PlacedLayer& layer) {
  static constexpr std::array kTaking = {LayerPass::with_relu_and_max_pool, LayerPass::with_relu_or_gelu,
                                         LayerPass::with_sum_and_relu, LayerPass::is_max_pool};
  return layer.spec->form == LayerSpec::Form::residual ||
         std::ranges::any_of(kTaking, [&](LayerPass pass) { return has_pass(layer, pass); });
}

/// Whether another layer can compute the sum of this residual.
bool leaves_sum(const PlacedLayer& layer) {
  return layer.spec->form == LayerSpec::Form::residual && !layer.spec->padded;
}

/// The following layers that the first layer of a list computes in its own pass.
struct TakenIn {
  bool relu = false;
  bool gelu = false;
  const PlacedLayer* norm = nullptr;
  const PlacedLayer* max_pool = nullptr;
  size_t layers = 0;  ///< how many layers these are
};

TakenIn taken_in(std::span<const PlacedLayer> list) {
  const PlacedLayer& layer = list.front();
  const auto has = [&](size_t place, LayerPass pass) { return place < list.size() && has_pass(list[place], pass); };
  if (leaves_sum(layer) && has(1, LayerPass::with_sum_before)) return {.norm = &list[1], .layers = 1};
  if (has_pass(layer, LayerPass::with_relu_or_gelu) && has(1, LayerPass::is_gelu)) return {.gelu = true, .layers = 1};
  TakenIn taken;
  const auto take_relu = [&] {
    taken.relu = has(taken.layers + 1, LayerPass::is_relu);
    if (taken.relu) ++taken.layers;
  };
  if (takes_relu(layer)) take_relu();
  if (has_pass(layer, LayerPass::with_relu_and_max_pool) && has(taken.layers + 1, LayerPass::is_max_pool)) {
    taken.max_pool = &list[++taken.layers];
    if (!taken.relu) take_relu();
  }
  return taken;
}

std::string where(const PlacedLayer& layer, const std::string& prefix) {
  return fmt::format("{} ({}{})", layer.spec->where, prefix, layer.name);
}

/// How to change a residual whose layers turn `input` into `output` so that both sides have one shape.
std::string shortcut_advice(const Shape& input, const Shape& output) {
  if (input.rank() != output.rank()) return "move the layers that change the number of dimensions before or after it";
  if (input.rank() != 3) return fmt::format("write shortcut: [linear: {}]", output.dimensions().back());
  const int64_t stride = (input[1] + output[1] - 1) / output[1];
  const auto reaches = [&](int dimension) { return (input[dimension] - 1) / stride + 1 == output[dimension]; };
  if (!reaches(1) || !reaches(2)) return "keep the image's size in its layers, with padding: 1 for kernel: 3";
  return fmt::format("write shortcut: [conv: {{channels: {}, kernel: 1, stride: {}}}]", output[0], stride);
}

bool keeps_size(const Shape& input, const Shape& output) { return input[1] == output[1] && input[2] == output[2]; }

/// Whether the image is halved as by a window of stride 2 that includes the edge.
bool halves_size(const Shape& input, const Shape& output) {
  return (input[1] + 1) / 2 == output[1] && (input[2] + 1) / 2 == output[2];
}

/// Advice if a padded shortcut can't be added to `output`; empty if it can.
std::optional<std::string> padded_advice(const Shape& input, const Shape& output) {
  if (input.rank() == 2) return "leave out shortcut: padded";
  if (input.rank() != 3) return "move it before the flatten, global_avg_pool or linear above it";
  if (output.rank() != 3) return "move the layers that change the number of dimensions before or after it";
  if (!keeps_size(input, output) && !halves_size(input, output))
    return "write padding: 1 for kernel: 3, and stride: 2 in one layer at most";
  if (output[0] < input[0]) return fmt::format("write channels: {} or more in its last conv", input[0]);
  return std::nullopt;
}

/// Tells a convolution or a linear layer if the part after it, which is the last one, is a batch norm.
void feed_batch_norm(const NamedLayers& parts) {
  if (parts.size() < 2 || dynamic_cast<nn::BatchNorm*>(parts.back().module.get()) == nullptr) return;
  nn::Module* const before = parts[parts.size() - 2].module.get();
  if (auto* convolution = dynamic_cast<nn::Conv2d*>(before)) convolution->feed_batch_norm();
  if (auto* linear = dynamic_cast<nn::Linear*>(before)) linear->feed_batch_norm();
}

class NetBuilder {
 public:
  NetBuilder(const nn::LayerOptions& options, const ModelInput& input) : options_(options), input_(input) {}

  /// Builds `layers` for samples of shape `input`. Names begin with `prefix`. `relu_behind_sum` says that the chain is
  /// the inside of a residual and that a ReLU follows the residual's sum.
  Chain chain(const std::vector<LayerSpec>& layers, const std::string& prefix, const Shape& input,
              bool relu_behind_sum = false) {
    const std::vector<PlacedLayer> placed = written_out(layers);
    Chain chain{.output = input};
    for (size_t i = 0; i < placed.size(); ++i) {
      const PlacedLayer& layer = placed[i];
      const TakenIn taken = taken_in(std::span(placed).subspan(i));
      const bool is_last = i + 1 == placed.size();
      chain.ends_in_norm = is_last && has_pass(layer, LayerPass::with_sum_and_relu);
      const auto build = [&](const PlacedLayer& built, bool relu) {
        BuiltLayer of = built.spec->form == LayerSpec::Form::residual
                            ? residual(built, prefix, chain.output, relu)
                            : built.spec->build({.options = options_,
                                                 .where = where(built, prefix),
                                                 .name = prefix + built.name,
                                                 .input = chain.output,
                                                 .is_first = built.spec == &layers.front() && prefix.empty(),
                                                 .is_last = &built == &placed.back() && prefix.empty(),
                                                 .classes = input_.classes,
                                                 .text = input_.text,
                                                 .relu = relu,
                                                 .gelu = taken.gelu,
                                                 .net = net_});
        require_size(built, prefix, of.output);
        chain.output = of.output;
        return of;
      };
      BuiltLayer built =
          build(layer, (taken.relu && taken.max_pool == nullptr) || (chain.ends_in_norm && relu_behind_sum));
      if (taken.max_pool != nullptr) {
        const BuiltLayer pool = build(*taken.max_pool, taken.relu);
        dynamic_cast<nn::Conv2d&>(*built.module).take_max_pool(dynamic_cast<nn::Pool2d&>(*pool.module).options());
      }
      if (taken.norm != nullptr) {
        BuiltLayer normed = build(*taken.norm, false);
        chain.parts.push_back(
            {.name = "",
             .module = std::make_unique<NormedResidual>(NamedLayer{layer.name, std::move(built.module)},
                                                        NamedLayer{taken.norm->name, std::move(normed.module)})});
      } else if (built.module != nullptr) {
        chain.parts.push_back({layer.name, std::move(built.module)});
        feed_batch_norm(chain.parts);
      }
      chain.head = std::move(built.head);
      i += taken.layers;
    }
    return chain;
  }

  /// To be called after the last layer.
  void finish() {
    if (net_.last_attention != nullptr) net_.last_attention->make_read_rows_alone();
  }

 private:
  BuiltLayer residual(const PlacedLayer& layer, const std::string& prefix, const Shape& input, bool relu) {
    if (layer.spec->padded) return padded_residual(layer, prefix, input, relu);
    const std::string inner = fmt::format("{}{}.", prefix, layer.name);
    Chain layers = chain(layer.spec->layers, inner, input, relu);
    Chain shortcut = chain(layer.spec->shortcut, inner, input);
    if (layers.output != shortcut.output)
      throw Error(ExitCode::config, Mistake{.where = where(layer, prefix),
                                            .expected = "needs two outputs of the same shape to add",
                                            .got = fmt::format("{} from its layers and {} from its {}",
                                                               batch_text(layers.output), batch_text(shortcut.output),
                                                               layer.spec->shortcut.empty() ? "input" : "shortcut"),
                                            .advice = shortcut_advice(input, layers.output)});
    const Shape output = layers.output;
    const Residual::Options sum{.relu = relu, .ends_in_norm = layers.ends_in_norm};
    return {std::make_unique<Residual>(std::move(layers.parts), std::move(shortcut.parts), sum), output};
  }

  BuiltLayer padded_residual(const PlacedLayer& layer, const std::string& prefix, const Shape& input, bool relu) {
    Chain layers = chain(layer.spec->layers, fmt::format("{}{}.", prefix, layer.name), input, relu);
    if (const auto advice = padded_advice(input, layers.output))
      throw Error(ExitCode::config, Mistake{.where = where(layer, prefix),
                                            .expected = "shortcut: padded needs layers that output images with at "
                                                        "least as many channels, and of the same size or half of it",
                                            .got = fmt::format("{} from its layers and {} from its input",
                                                               batch_text(layers.output), batch_text(input)),
                                            .advice = *advice});
    const Shape output = layers.output;
    const Residual::Options sum{.relu = relu, .ends_in_norm = layers.ends_in_norm};
    return {std::make_unique<PaddedResidual>(std::move(layers.parts), !keeps_size(input, output), sum), output};
  }

  void require_size(const PlacedLayer& layer, const std::string& prefix, const Shape& output) const {
    double elements = 1;
    for (const int64_t size : output.dimensions()) elements *= static_cast<double>(size);
    if (elements <= kMostElements) return;
    throw Error(ExitCode::config,
                Mistake{.where = where(layer, prefix),
                        .expected = fmt::format("a layer may output at most {} values per sample", kMostElements),
                        .got = batch_text(output),
                        .advice = input_.text ? "choose a smaller width or a shorter sequence"
                                              : "choose fewer channels or less padding"});
  }

  const nn::LayerOptions& options_;
  const ModelInput& input_;
  NetSoFar net_;
};

/// Checks that the last layer makes the output that the loss is computed from.
void require_end(const std::vector<LayerSpec>& layers, const Chain& chain, const ModelInput& input) {
  if (chain.head != nullptr || (!input.text && chain.output == Shape{input.classes})) return;
  Mistake mistake;
  mistake.where = where(written_out(layers).back(), "");
  mistake.got = batch_text(chain.output);
  if (input.text) {
    mistake.expected = "the last layer of a net of text must be pretraining_head";
    mistake.advice = "end with pretraining_head";
  } else {
    mistake.expected =
        fmt::format("the last layer must output {}, one value per class of the data set", batch_text({input.classes}));
    mistake.advice = chain.output.rank() == 1 ? "end with linear: classes" : "end with flatten and linear: classes";
  }
  throw Error(ExitCode::config, mistake);
}

/// Checks that the parameters of a piece of the net have new names, and notes these. Parts of a layer have names, too,
/// and the name of a layer may contain dots, so two parameters may share a name even if no two layers do.
void require_new_names(nn::Component& piece, const std::string& prefix, const ModelInput& input,
                       std::set<std::string>& names) {
  const auto note = [&](const std::string& name) {
    if (!names.insert(name).second)
      throw Error(ExitCode::config, Mistake{.where = input.where,
                                            .expected = "expected a name of its own for each parameter",
                                            .got = fmt::format("two called {}", name),
                                            .advice = "write another name: in one of their layers"});
  };
  piece.visit_parameters([&](const std::string& name, Parameter&, const nn::Initializer&) { note(name); }, prefix);
  piece.visit_tied([&](const std::string& name, Parameter&) { note(name); }, prefix);
}

}  // namespace

std::unique_ptr<nn::Model> build_layered_net(const std::vector<LayerSpec>& layers, const nn::LayerOptions& options,
                                             const ModelInput& input) {
  if (!text_of(layers)) require_images(input);
  NetBuilder builder(options, input);
  Chain chain = builder.chain(layers, "", input.text ? Shape{input.text->sequence} : input.image);
  builder.finish();
  require_end(layers, chain, input);
  auto model = std::make_unique<nn::Model>();
  std::set<std::string> names;
  for (auto& [name, module] : chain.parts) {
    const std::string prefix = name.empty() ? name : name + ".";
    require_new_names(*module, prefix, input, names);
    model->add_stage(std::move(module), prefix);
  }
  if (chain.head != nullptr) model->set_head(std::move(chain.head));
  return model;
}

}  // namespace dptrain::models
