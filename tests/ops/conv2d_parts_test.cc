// Wide Winograd convolutions, which are computed by parts of the output channels: against the direct algorithm, and in
// little memory.

#include <gtest/gtest.h>

#include <cmath>

#include "ops/conv2d.h"
#include "ops/reorder.h"
#include "support/formula_tensor.h"
#include "support/test_device.h"

namespace dptrain {
namespace {

using namespace testing;
using ops::ConvolutionAlgorithm;

/// Channels that don't fill their last block, in three parts or more in every pass.
const Shape kX = {3, 300, 5, 6}, kWeight = {890, 300, 3, 3}, kY = {3, 890, 5, 6};

class Conv2dParts : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!ops::has_winograd(*device_)) GTEST_SKIP() << "no AVX-512: Winograd convolutions don't run here";
  }
  static ops::Conv2dOptions with(ConvolutionAlgorithm algorithm) { return {.padding = 1, .algorithm = algorithm}; }
  /// By default within what the transforms of F(4x3, 3x3) round, relative to the norm.
  static void expect_alike(const Tensor& winograd, const Tensor& direct, double bound = 1.5e-5) {
    const std::vector<float> w = values_of(winograd), d = values_of(direct);
    ASSERT_EQ(w.size(), d.size());
    double distance = 0, norm = 0;
    for (size_t i = 0; i < d.size(); ++i) {
      distance += (double{w[i]} - d[i]) * (double{w[i]} - d[i]);
      norm += double{d[i]} * d[i];
    }
    EXPECT_GT(norm, 0);
    EXPECT_LE(std::sqrt(distance), bound * std::sqrt(norm));
  }

  std::unique_ptr<Device> device_ = test_device();
  Tensor x_ = formula_tensor(*device_, kX, {.tensor = 1}, ops::conv2d_output_layout(*device_, 300, 890));
  Tensor weight_ = formula_tensor(*device_, kWeight, {.tensor = 2}, ops::conv2d_weight_layout(*device_, kWeight));
  Tensor bias_ = formula_tensor(*device_, {kWeight[0]}, {.tensor = 3});
  Tensor incoming_ = formula_tensor(*device_, kY, {.tensor = 4}, x_.layout());
};

TEST_F(Conv2dParts, Forward) {
  for (const bool relu : {false, true}) {
    const auto y = [&](ConvolutionAlgorithm algorithm) {
      ops::Conv2dOptions options = with(algorithm);
      options.relu = relu;
      return ops::conv2d_forward(x_, weight_, bias_, options);
    };
    const Tensor winograd = y(ConvolutionAlgorithm::winograd);
    expect_alike(winograd, y(ConvolutionAlgorithm::direct));
    expect_zero_padding(winograd);
  }
}

TEST_F(Conv2dParts, BackwardData) {
  const auto gradient = [&](ConvolutionAlgorithm algorithm) {
    return ops::conv2d_backward_data(x_, weight_, incoming_, with(algorithm));
  };
  const Tensor winograd = gradient(ConvolutionAlgorithm::winograd);
  expect_alike(winograd, gradient(ConvolutionAlgorithm::direct));
  expect_zero_padding(winograd);
}

TEST_F(Conv2dParts, BackwardWeights) {
  for (const bool accumulate : {false, true}) {
    const auto gradients = [&](ConvolutionAlgorithm algorithm) {
      ops::Conv2dWeightGradients sums{.weight = formula_tensor(*device_, kWeight, {.tensor = 5}, weight_.layout()),
                                      .bias = formula_tensor(*device_, {kWeight[0]}, {.tensor = 6}),
                                      .accumulate_weight = accumulate,
                                      .accumulate_bias = accumulate};
      ops::conv2d_backward_weights(x_, incoming_, sums, with(algorithm));
      return sums;
    };
    const auto winograd = gradients(ConvolutionAlgorithm::winograd), direct = gradients(ConvolutionAlgorithm::direct);
    expect_alike(winograd.weight, direct.weight);
    expect_alike(winograd.bias, direct.bias);
  }
}

TEST_F(Conv2dParts, InBf16IsRoundedOnce) {
  constexpr double kRounding = 0x1p-9;
  const auto to = [](DType dtype, const Tensor& x) {
    return ops::converted(x, {.dtype = dtype, .layout = x.layout()});
  };
  const auto half = [&](const Tensor& x) { return to(DType::bf16, x); };
  const auto wide = [&](const Tensor& x) { return to(DType::f32, x); };
  const Tensor x = half(x_), weight = half(weight_), bias = half(bias_), incoming = half(incoming_);
  const auto options = with(ConvolutionAlgorithm::winograd);
  const Tensor y = ops::conv2d_forward(x, weight, bias, options);
  EXPECT_EQ(y.dtype(), DType::bf16);
  expect_alike(wide(y), ops::conv2d_forward(wide(x), wide(weight), wide(bias), options), kRounding);
  const Tensor gradient = ops::conv2d_backward_data(x, weight, incoming, options);
  EXPECT_EQ(gradient.dtype(), DType::bf16);
  expect_alike(wide(gradient), ops::conv2d_backward_data(wide(x), wide(weight), wide(incoming), options), kRounding);
  const auto weight_gradient = [&](const Tensor& of_x, const Tensor& of_y) {
    const Tensor sum = Tensor::zeros(*device_, kWeight, {.layout = weight_.layout()});
    ops::conv2d_backward_weights(of_x, of_y, {.weight = sum, .bias = {}}, options);
    return sum;
  };
  expect_alike(weight_gradient(x, incoming), weight_gradient(wide(x), wide(incoming)), 0);
}

TEST_F(Conv2dParts, TakeLittleWorkspace) {
  // All weights of 512 x 512 channels transformed are 38 MB, and a gradient holds them three times on two threads.
  constexpr int64_t kMost = int64_t{48} << 20;
  const Layout layout = ops::conv2d_output_layout(*device_, 512, 512);
  const Tensor images = formula_tensor(*device_, {4, 512, 4, 4}, {.tensor = 1}, layout);
  const Tensor weight =
      formula_tensor(*device_, {512, 512, 3, 3}, {.tensor = 2}, ops::conv2d_weight_layout(*device_, {512, 512, 3, 3}));
  const auto workspace = [&](const auto& body) {
    return device_->allocator().peak_during(body)[MemoryPurpose::workspace];
  };
  const auto options = with(ConvolutionAlgorithm::automatic);
  EXPECT_LE(workspace([&] { ops::conv2d_forward(images, weight, Tensor(), options); }), kMost);
  EXPECT_LE(workspace([&] { ops::conv2d_backward_data(images, weight, images, options); }), kMost);
  const Tensor gradient = Tensor::zeros(*device_, weight.shape(), {.layout = weight.layout()});
  EXPECT_LE(workspace([&] { ops::conv2d_backward_weights(images, images, {.weight = gradient, .bias = {}}, options); }),
            kMost);
}

}  // namespace
}  // namespace dptrain
