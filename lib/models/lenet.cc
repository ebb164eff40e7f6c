#include "models/lenet.h"

#include <fmt/format.h>

#include "autograd/flatten.h"
#include "base/error.h"

namespace dptrain::models {
namespace {

class ConvolutionAndPool final : public nn::Module {
 public:
  ConvolutionAndPool(const nn::LayerOptions& options, const std::string& name, int64_t in, int64_t out)
      : convolution_(add_child<nn::Conv2d>(name, options,
                                           nn::Conv2dSizes{.in_channels = in, .out_channels = out, .kernel = 5})) {}

  Variable forward(const Variable& x, const nn::ForwardContext& context) override {
    return convolution_.forward(x, {.kernel = 2, .stride = 2, .relu = true}, context);
  }

 private:
  nn::Conv2d& convolution_;
};

class Dense final : public nn::Module {
 public:
  Dense(int64_t features, int64_t classes)
      : hidden_(add_child<nn::Linear>("fc1", features, 128,
                                      nn::LinearOptions{.activation = nn::LinearOptions::Activation::relu})),
        output_(add_child<nn::Linear>("fc2", 128, classes)) {}

  Variable forward(const Variable& x, const nn::ForwardContext& context) override {
    return output_.forward(hidden_.forward(autograd::flatten(x), context), context);
  }

 private:
  nn::Linear& hidden_;
  nn::Linear& output_;
};

/// What is left of a side of the image after a 5x5 convolution and a 2x2 pool.
int64_t after_stage(int64_t side) { return (side - 4) / 2; }

}  // namespace

std::unique_ptr<nn::Model> build_lenet(const nn::LayerOptions& options, const ModelInput& input) {
  const int64_t height = after_stage(after_stage(input.image[1])), width = after_stage(after_stage(input.image[2]));
  if (height < 1 || width < 1)
    throw Error(ExitCode::config, Mistake{.where = input.where,
                                          .expected = "needs images of at least 16 x 16",
                                          .got = fmt::format("{} x {}", input.image[1], input.image[2]),
                                          .advice = "choose another data set or shape"});
  auto model = std::make_unique<nn::Model>();
  model->add_stage(std::make_unique<ConvolutionAndPool>(options, "conv1", input.image[0], 20));
  model->add_stage(std::make_unique<ConvolutionAndPool>(options, "conv2", 20, 50));
  model->add_stage(std::make_unique<Dense>(50 * height * width, input.classes));
  return model;
}

}  // namespace dptrain::models
