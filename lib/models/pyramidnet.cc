#include "models/pyramidnet.h"

#include <fmt/format.h>

#include <cmath>

#include "autograd/flatten.h"
#include "autograd/pool2d.h"
#include "base/error.h"

namespace dptrain::models {
namespace {

constexpr int64_t kStages = 3;
constexpr int64_t kFirstWidth = 16;
/// Far more than a net needs; keeps every product of sizes within 64 bits.
constexpr int64_t kWidest = 1 << 16;

const nn::Initializer kFilters{nn::Initializer::Kind::kaiming_normal, 0};

nn::Conv2dSizes unbiased3x3(int64_t in, int64_t out, int64_t stride = 1) {
  return {.in_channels = in, .out_channels = out, .kernel = 3, .stride = stride, .padding = 1, .bias = false};
}

/// The length of a side after a block that halves the image; equal for its convolution and its shortcut.
int64_t halved(int64_t side) { return (side + 1) / 2; }

class PyramidNetStem final : public nn::Module {
 public:
  PyramidNetStem(const nn::LayerOptions& options, int64_t channels)
      : conv1_(add_child<nn::Conv2d>("conv1", options, unbiased3x3(channels, kFirstWidth), kFilters)),
        bn1_(add_child<nn::BatchNorm>("bn1", kFirstWidth)) {}

  Variable forward(const Variable& x, const nn::ForwardContext& context) override {
    return bn1_.forward(conv1_.forward(x, context), context);
  }

 private:
  nn::Conv2d& conv1_;
  nn::BatchNorm& bn1_;
};

/// bn3(conv2(relu(bn2(conv1(bn1(x)))))) with x added to its first channels; with stride 2, x is first averaged over
/// 2x2.
class PyramidBlock final : public nn::Module {
 public:
  PyramidBlock(const nn::LayerOptions& options, int64_t in, int64_t out, int64_t stride)
      : stride_(stride),
        bn1_(add_child<nn::BatchNorm>("bn1", in)),
        bn2_(add_child<nn::BatchNorm>("bn2", out, ops::BatchNormOptions{.relu = true})),
        bn3_(add_child<nn::BatchNorm>("bn3", out)),
        conv1_(add_child<nn::Conv2d>("conv1", options, unbiased3x3(in, out, stride), kFilters)),
        conv2_(add_child<nn::Conv2d>("conv2", options, unbiased3x3(out, out), kFilters)) {}

  Variable forward(const Variable& x, const nn::ForwardContext& context) override {
    const Variable inner = bn2_.forward(conv1_.forward(bn1_.forward(x, context), context), context);
    const Variable shortcut = stride_ == 1 ? x : autograd::average_pool2d(x, {.kernel = 2, .stride = 2, .ceil = true});
    return bn3_.forward(conv2_.forward(inner, context), shortcut, context);
  }

 private:
  int64_t stride_;
  nn::BatchNorm& bn1_;
  nn::BatchNorm& bn2_;
  nn::BatchNorm& bn3_;
  nn::Conv2d& conv1_;
  nn::Conv2d& conv2_;
};

/// Averages a square of `side`, which is the image's width at this point, and makes the logits of the classes.
class PyramidNetHead final : public nn::Module {
 public:
  PyramidNetHead(int64_t channels, int64_t side, int64_t classes)
      : side_(side),
        bn_out_(add_child<nn::BatchNorm>("bn_out", channels, ops::BatchNormOptions{.relu = true})),
        fc_out_(add_child<nn::Linear>("fc_out", channels, classes)) {}

  Variable forward(const Variable& x, const nn::ForwardContext& context) override {
    const Variable mean = autograd::average_pool2d(bn_out_.forward(x, context), {.kernel = side_, .stride = side_});
    return fc_out_.forward(autograd::flatten(mean), context);
  }

 private:
  int64_t side_;
  nn::BatchNorm& bn_out_;
  nn::Linear& fc_out_;
};

}  // namespace

std::vector<int64_t> pyramidnet_widths(const PyramidNetOptions& options) {
  const double growth = static_cast<double>(options.alpha) / (3.0 * static_cast<double>(options.depth));
  double width = kFirstWidth;
  std::vector<int64_t> widths = {kFirstWidth};
  for (int64_t block = 0; block < kStages * options.blocks; ++block) {
    width += growth;
    widths.push_back(std::llrint(width));
  }
  return widths;
}

PyramidNetOptions read_pyramidnet(ConfigReader& options) {
  PyramidNetOptions pyramid;
  pyramid.alpha =
      options.integer("alpha", pyramid.alpha, {.min = 0, .max = kWidest, .help = "channels that 3 x depth blocks add"});
  pyramid.depth = options.integer("depth", pyramid.depth,
                                  {.min = 1, .max = 1000, .help = "each block adds alpha / (3 x depth) channels"});
  pyramid.blocks = options.integer("blocks", pyramid.blocks,
                                   {.min = 1, .max = 1000, .help = "residual blocks in each of the three stages"});
  const int64_t last = pyramidnet_widths(pyramid).back();
  if (last > kWidest)
    options.mistake("alpha", fmt::format("expected blocks of at most {} channels", kWidest),
                    fmt::format("16 + {} * {} / {} = {}", pyramid.alpha, pyramid.blocks, pyramid.depth, last),
                    "choose a smaller alpha or fewer blocks, or more depth");
  return pyramid;
}

std::unique_ptr<nn::Model> build_pyramidnet(const PyramidNetOptions& pyramid, const nn::LayerOptions& options,
                                            const ModelInput& input) {
  const int64_t height = halved(halved(input.image[1])), width = halved(halved(input.image[2]));
  if (height < width || height >= 2 * width)
    throw Error(
        ExitCode::config,
        Mistake{.where = input.where,
                .expected = "its last pool needs images that are at least as high as wide, and less than twice as high",
                .got = fmt::format("{} x {}, made from {} x {}", height, width, input.image[1], input.image[2]),
                .advice = "choose another data set or shape, for instance a square one"});
  auto model = std::make_unique<nn::Model>();
  model->add_stage(std::make_unique<PyramidNetStem>(options, input.image[0]));
  const std::vector<int64_t> widths = pyramidnet_widths(pyramid);
  size_t block = 0;
  for (int64_t stage = 0; stage < kStages; ++stage) {
    for (int64_t in_stage = 0; in_stage < pyramid.blocks; ++in_stage, ++block) {
      const int64_t stride = stage > 0 && in_stage == 0 ? 2 : 1;
      model->add_stage(std::make_unique<PyramidBlock>(options, widths[block], widths[block + 1], stride),
                       fmt::format("layer{}.{}.", stage + 1, in_stage));
    }
  }
  model->add_stage(std::make_unique<PyramidNetHead>(widths.back(), width, input.classes));
  return model;
}

}  // namespace dptrain::models
