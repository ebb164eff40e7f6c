#include "models/layer_table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>

#include "base/error.h"
#include "config/f32_range.h"
#include "models/layer_initializer.h"
#include "models/text_layers.h"
#include "nn/stateless_layers.h"

namespace dptrain::models {
namespace {

// Bounds far above what a net needs. They keep every product of sizes within 64 bits.
constexpr int64_t kMostChannels = 1 << 16;
constexpr int64_t kMostFeatures = 1 << 18;
constexpr int64_t kLargestWindow = 255;
/// On a GPU, the place of a maximum in its window is stored in a byte.
constexpr int64_t kLargestPoolOnGpu = 16;

bool is_text(const Shape& sample) { return sample.rank() == 2; }

int64_t width_of(const Shape& sample) { return sample.dimensions().back(); }

void require_images(const LayerSite& site) {
  if (site.input.rank() == 3) return;
  refuse(site, "needs images [N, C, H, W]",
         is_text(site.input) ? "leave it out of a net of text"
                             : "move it before the flatten, global_avg_pool or linear above it");
}

void require_features(const LayerSite& site) {
  if (site.input.rank() == 3) refuse(site, "needs features [N, F]", "put flatten or global_avg_pool before it");
}

/// Windows that slide over an image.
struct Window {
  int64_t kernel = 1;
  int64_t stride = 1;
  int64_t padding = 0;
};

int64_t read_kernel(ConfigReader& options) {
  return options.integer("kernel", std::nullopt,
                         {.min = 1, .max = kLargestWindow, .help = "height and width of the window"});
}

int64_t read_padding(ConfigReader& options, std::string_view help) {
  return options.integer("padding", 0, {.min = 0, .max = kLargestWindow, .help = help});
}

/// The output shape with `channels` channels: one value for each place of the window.
Shape slide(const LayerSite& site, int64_t channels, const Window& window) {
  require_images(site);
  const int64_t needed = window.kernel - 2 * window.padding;
  if (site.input[1] < needed || site.input[2] < needed)
    refuse(site,
           fmt::format("a window of {0} x {0} with padding {1} needs images of at least {2} x {2}", window.kernel,
                       window.padding, needed),
           "choose a smaller kernel or more padding, or leave out a pool or a stride before it");
  const auto places = [&](int64_t side) { return (side - needed) / window.stride + 1; };
  return {channels, places(site.input[1]), places(site.input[2])};
}

BuildLayer read_conv(ConfigReader& options) {
  const int64_t channels =
      options.integer("channels", std::nullopt,
                      {.min = 1, .max = kMostChannels, .help = "channels of the output: the number of filters"});
  const Window window{
      .kernel = read_kernel(options),
      .stride = options.integer("stride", 1, {.min = 1, .max = kLargestWindow, .help = "stride of the window"}),
      .padding = read_padding(options, "zeros around the image")};
  const bool bias = options.boolean("bias", true, "add a number to each channel");
  const auto weight = read_layer_initializer(options);
  return [=](const LayerSite& site) -> BuiltLayer {
    const Shape output = slide(site, channels, window);
    const nn::Conv2dSizes sizes{.in_channels = site.input[0],
                                .out_channels = channels,
                                .kernel = window.kernel,
                                .stride = window.stride,
                                .padding = window.padding,
                                .bias = bias,
                                .relu = site.relu};
    return {std::make_unique<nn::Conv2d>(site.options, sizes, weight), output};
  };
}

BuildLayer read_linear(ConfigReader& options) {
  const bool is_classes = options.word("features", "classes", false);
  const int64_t features =
      is_classes ? 0
                 : options.integer("features", std::nullopt,
                                   {.min = 1,
                                    .max = kMostFeatures,
                                    .help = "features of the output; classes: as many as the data set has"});
  const bool bias = options.boolean("bias", true, "add a number to each feature");
  const auto weight = read_layer_initializer(options);
  return [=](const LayerSite& site) -> BuiltLayer {
    require_features(site);
    if (is_classes && is_text(site.input))
      refuse(site, "features: classes needs a data set of images", "write a number");
    const int64_t out = is_classes ? site.classes : features;
    const Shape output = is_text(site.input) ? Shape{site.input[0], out} : Shape{out};
    using Activation = nn::LinearOptions::Activation;
    const Activation activation = site.relu ? Activation::relu : site.gelu ? Activation::gelu : Activation::none;
    return {
        std::make_unique<nn::Linear>(width_of(site.input), out,
                                     nn::LinearOptions{.activation = activation, .weight = weight, .with_bias = bias}),
        output};
  };
}

double read_epsilon(ConfigReader& options) {
  return options.number("eps", 1e-5, {.min = kLeastF32, .max = kMostF32, .help = "added to the variance"});
}

BuildLayer read_batch_norm(ConfigReader& options) {
  const double epsilon = read_epsilon(options);
  const double momentum = options.number(
      "momentum", 0.1, {.min = 0, .max = 1, .help = "the share of a batch's statistics in the running ones"});
  return [=](const LayerSite& site) -> BuiltLayer {
    if (is_text(site.input)) require_images(site);
    const ops::BatchNormOptions norm{
        .relu = site.relu, .epsilon = static_cast<float>(epsilon), .momentum = static_cast<float>(momentum)};
    return {std::make_unique<nn::BatchNorm>(site.input[0], norm), site.input};
  };
}

BuildLayer read_layer_norm(ConfigReader& options) {
  const double epsilon = read_epsilon(options);
  return [=](const LayerSite& site) -> BuiltLayer {
    require_features(site);
    return {std::make_unique<nn::LayerNorm>(width_of(site.input), static_cast<float>(epsilon)), site.input};
  };
}

BuildLayer of_each_value(const ops::Activation& function) {
  return [=](const LayerSite& site) -> BuiltLayer { return {std::make_unique<nn::Activation>(function), site.input}; };
}

template <ops::ActivationKind kind>
BuildLayer read_activation(ConfigReader&) {
  return of_each_value({kind});
}

BuildLayer read_leaky_relu(ConfigReader& options) {
  const double slope = options.number("slope", 0.01, {.min = 0, .max = kMostF32, .help = "slope below 0"});
  return of_each_value(ops::leaky_relu(static_cast<float>(slope)));
}

template <ops::Pooling pooling>
BuildLayer read_pool(ConfigReader& options) {
  Window window{.kernel = read_kernel(options)};
  window.stride =
      options
          .optional_integer("stride",
                            {.min = 1, .max = kLargestWindow, .help = "stride of the window; by default its side"})
          .value_or(window.kernel);
  window.padding = read_padding(options, "padding around the image; no more than half a window");
  if (!options.describing() && window.padding > window.kernel / 2)
    options.mistake("padding", fmt::format("expected at most {}, half of the window", window.kernel / 2),
                    fmt::format("{}", window.padding), fmt::format("write padding: {}", window.kernel / 2));
  return [=](const LayerSite& site) -> BuiltLayer {
    const Shape output = slide(site, site.input[0], window);
    if (pooling == ops::Pooling::max && site.options.device.kind() == DeviceKind::cuda &&
        window.kernel > kLargestPoolOnGpu)
      refuse(site, fmt::format("on a GPU, max pooling supports windows of at most {0} x {0}", kLargestPoolOnGpu),
             fmt::format("choose a kernel of {} or less", kLargestPoolOnGpu));
    const ops::Pool2dOptions sizes{
        .kernel = window.kernel, .stride = window.stride, .padding = window.padding, .relu = site.relu};
    return {std::make_unique<nn::Pool2d>(pooling, sizes), output};
  };
}

BuildLayer read_global_avg_pool(ConfigReader&) {
  return [](const LayerSite& site) -> BuiltLayer {
    require_images(site);
    return {std::make_unique<nn::GlobalAveragePool>(), {site.input[0]}};
  };
}

BuildLayer read_flatten(ConfigReader&) {
  return [](const LayerSite& site) -> BuiltLayer {
    if (is_text(site.input)) require_images(site);
    return {std::make_unique<nn::Flatten>(), {site.input.elements()}};
  };
}

BuildLayer read_dropout(ConfigReader& options) {
  // The maximum keeps 1 / (1 - probability) at a reasonable size in f32.
  const double probability = options.number("probability", std::nullopt,
                                            {.min = 0, .max = 0.999, .help = "probability that a value is zeroed"});
  return [=](const LayerSite& site) -> BuiltLayer {
    return {std::make_unique<nn::Dropout>(static_cast<float>(probability), site.net.dropouts++), site.input};
  };
}

constexpr std::array<LayerKind, 17> kLayers = {{
    {"conv", "conv", "channels", "a convolution", LayerPass::with_relu_and_max_pool, read_conv},
    {"linear", "fc", "features", "every output from every input", LayerPass::with_relu_or_gelu, read_linear},
    {"batch_norm", "bn", "", "each channel or feature normalized over the batch", LayerPass::with_sum_and_relu,
     read_batch_norm},
    {"layer_norm", "ln", "", "the features of each sample or token normalized", LayerPass::with_sum_before,
     read_layer_norm},
    {"relu", "relu", "", "max(0, x)", LayerPass::is_relu, read_activation<ops::ActivationKind::relu>},
    {"gelu", "gelu", "", "x (1 + erf(x / sqrt 2)) / 2", LayerPass::is_gelu, read_activation<ops::ActivationKind::gelu>},
    {"tanh", "tanh", "", "the hyperbolic tangent", LayerPass::alone, read_activation<ops::ActivationKind::tanh>},
    {"sigmoid", "sigmoid", "", "1 / (1 + exp(-x))", LayerPass::alone, read_activation<ops::ActivationKind::sigmoid>},
    {"silu", "silu", "", "x / (1 + exp(-x))", LayerPass::alone, read_activation<ops::ActivationKind::silu>},
    {"leaky_relu", "leaky_relu", "slope", "x over 0, slope x below", LayerPass::alone, read_leaky_relu},
    {"max_pool", "max_pool", "kernel", "the largest of each window", LayerPass::is_max_pool,
     read_pool<ops::Pooling::max>},
    {"avg_pool", "avg_pool", "kernel", "the mean of each window", LayerPass::alone, read_pool<ops::Pooling::average>},
    {"global_avg_pool", "global_avg_pool", "", "the mean of each channel", LayerPass::alone, read_global_avg_pool},
    {"flatten", "flatten", "", "an image as one row of features", LayerPass::alone, read_flatten},
    {"dropout", "dropout", "probability", "zeroes values while training", LayerPass::alone, read_dropout},
    {"attention", "attention", "heads", "each token from all of its sample", LayerPass::alone, read_attention},
    {"pretraining_head", "head", "", "masked tokens and the next sentence, at the end of a net of text",
     LayerPass::alone, read_pretraining_head},
}};

}  // namespace

std::span<const LayerKind> layer_kinds() { return kLayers; }

void refuse(const LayerSite& site, const std::string& expected, const std::string& advice) {
  throw Error(ExitCode::config, Mistake{site.where, expected, batch_text(site.input), advice});
}

std::string batch_text(const Shape& sample) { return fmt::format("[N, {}]", fmt::join(sample.dimensions(), ", ")); }

}  // namespace dptrain::models
