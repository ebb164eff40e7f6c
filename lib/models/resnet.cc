#include "models/resnet.h"

#include <fmt/format.h>

#include <array>

#include "autograd/pool2d.h"

namespace dptrain::models {
namespace {

const nn::Initializer kWeights = nn::Initializer::normal(0.01);

nn::Conv2dSizes convolution3x3(int64_t in, int64_t out, int64_t stride) {
  return {.in_channels = in, .out_channels = out, .kernel = 3, .stride = stride, .padding = 1};
}

class ResNetStem final : public nn::Module {
 public:
  ResNetStem(const nn::LayerOptions& options, int64_t channels)
      : conv1_(add_child<nn::Conv2d>("conv1", options, convolution3x3(channels, 64, 1), kWeights)),
        bn1_(add_child<nn::BatchNorm>("bn1", 64, ops::BatchNormOptions{.relu = true})) {
    conv1_.feed_batch_norm();
  }

  Variable forward(const Variable& x, const nn::ForwardContext& context) override {
    return bn1_.forward(conv1_.forward(x, context), context);
  }

 private:
  nn::Conv2d& conv1_;
  nn::BatchNorm& bn1_;
};

/// relu(bn2(conv2(relu(bn1(conv1(x))))) + shortcut(x)); the shortcut is a 1x1 convolution where the shape changes.
class BasicBlock final : public nn::Module {
 public:
  BasicBlock(const nn::LayerOptions& options, int64_t in, int64_t out, int64_t stride)
      : conv1_(add_child<nn::Conv2d>("conv1", options, convolution3x3(in, out, stride), kWeights)),
        bn1_(add_child<nn::BatchNorm>("bn1", out, ops::BatchNormOptions{.relu = true})),
        conv2_(add_child<nn::Conv2d>("conv2", options, convolution3x3(out, out, 1), kWeights)),
        bn2_(add_child<nn::BatchNorm>("bn2", out, ops::BatchNormOptions{.relu = true})) {
    conv1_.feed_batch_norm();
    conv2_.feed_batch_norm();
    if (in == out && stride == 1) return;
    const nn::Conv2dSizes sizes{.in_channels = in, .out_channels = out, .kernel = 1, .stride = stride};
    downsample_ = &add_child<nn::Conv2d>("downsample", options, sizes, kWeights);
  }

  Variable forward(const Variable& x, const nn::ForwardContext& context) override {
    const Variable shortcut = downsample_ != nullptr ? downsample_->forward(x, context) : x;
    const Variable inner = bn1_.forward(conv1_.forward(x, context), context);
    return bn2_.forward(conv2_.forward(inner, context), shortcut, context);
  }

 private:
  nn::Conv2d& conv1_;
  nn::BatchNorm& bn1_;
  nn::Conv2d& conv2_;
  nn::BatchNorm& bn2_;
  nn::Conv2d* downsample_ = nullptr;
};

class ResNetHead final : public nn::Module {
 public:
  explicit ResNetHead(int64_t classes)
      : fc_(add_child<nn::Linear>("fc", 512, classes, nn::LinearOptions{.weight = kWeights})) {}

  Variable forward(const Variable& x, const nn::ForwardContext& context) override {
    return fc_.forward(autograd::global_average_pool(x), context);
  }

 private:
  nn::Linear& fc_;
};

}  // namespace

std::unique_ptr<nn::Model> build_resnet18(const nn::LayerOptions& options, const ModelInput& input) {
  auto model = std::make_unique<nn::Model>();
  model->add_stage(std::make_unique<ResNetStem>(options, input.image[0]));
  constexpr std::array<int64_t, 4> kWidths = {64, 128, 256, 512};
  int64_t width = 64;
  for (size_t layer = 0; layer < kWidths.size(); ++layer) {
    for (int block = 0; block < 2; ++block) {
      const int64_t stride = layer > 0 && block == 0 ? 2 : 1;
      model->add_stage(std::make_unique<BasicBlock>(options, width, kWidths[layer], stride),
                       fmt::format("layer{}.{}.", layer + 1, block));
      width = kWidths[layer];
    }
  }
  model->add_stage(std::make_unique<ResNetHead>(input.classes));
  return model;
}

}  // namespace dptrain::models
