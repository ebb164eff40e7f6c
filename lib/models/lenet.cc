#include "models/lenet.h"

#include <fmt/format.h>

#include "autograd/flatten.h"
#include "base/error.h"

namespace dptrain::models {
namespace {

/// A 5x5 convolution, a 2x2 max pool of its output, and a ReLU.
std::unique_ptr<nn::Module> convolution_and_pool(const nn::LayerOptions& options, int64_t in, int64_t out) {
  auto convolution =
      std::make_unique<nn::Conv2d>(options, nn::Conv2dSizes{.in_channels = in, .out_channels = out, .kernel = 5});
  convolution->take_max_pool({.kernel = 2, .stride = 2, .relu = true});
  return convolution;
}

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

/// The length of an image's side after a 5x5 convolution and a 2x2 pool.
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
  model->add_stage(convolution_and_pool(options, input.image[0], 20), "conv1.");
  model->add_stage(convolution_and_pool(options, 20, 50), "conv2.");
  model->add_stage(std::make_unique<Dense>(50 * height * width, input.classes));
  return model;
}

}  // namespace dptrain::models
