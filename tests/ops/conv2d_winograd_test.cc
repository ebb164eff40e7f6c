// Winograd's convolutions against the direct algorithm: many shapes, and little memory. A sample has the same bits
// whatever else is in its call.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <tuple>

#include "ops/conv2d.h"
#include "ops/reorder.h"
#include "support/device_rows.h"
#include "support/formula_tensor.h"
#include "support/test_device.h"

namespace dptrain {
namespace conv2d_winograd_test {

using namespace testing;
using ops::ConvolutionAlgorithm;

/// Channels that don't fill their last block, an odd number of blocks, and images that end within a square.
const Shape kX = {3, 300, 5, 6}, kWeight = {890, 300, 3, 3}, kY = {3, 890, 5, 6};

/// Expects equality within `bound`, relative to the norm; the default is the rounding of the transforms of F(4x4, 3x3).
void expect_alike(const Tensor& winograd, const Tensor& direct, double bound = 3e-6) {
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

class Winograd : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!ops::has_winograd(*device_)) GTEST_SKIP() << "no AVX2: Winograd convolutions don't run here";
  }
  static ops::Conv2dOptions with(ConvolutionAlgorithm algorithm) { return {.padding = 1, .algorithm = algorithm}; }

  std::unique_ptr<Device> device_ = test_device();
  Tensor x_ = formula_tensor(*device_, kX, {.tensor = 1}, ops::conv2d_output_layout(*device_, kWeight));
  Tensor weight_ = formula_tensor(*device_, kWeight, {.tensor = 2}, ops::conv2d_weight_layout(*device_, kWeight));
  Tensor bias_ = formula_tensor(*device_, {kWeight[0]}, {.tensor = 3});
  Tensor incoming_ = formula_tensor(*device_, kY, {.tensor = 4}, x_.layout());
};

TEST_F(Winograd, Forward) {
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

TEST_F(Winograd, BackwardData) {
  const auto gradient = [&](ConvolutionAlgorithm algorithm) {
    return ops::conv2d_backward_data(x_, weight_, incoming_, with(algorithm));
  };
  const Tensor winograd = gradient(ConvolutionAlgorithm::winograd);
  expect_alike(winograd, gradient(ConvolutionAlgorithm::direct));
  expect_zero_padding(winograd);
}

TEST_F(Winograd, BackwardWeights) {
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

TEST_F(Winograd, InBf16IsRoundedOnce) {
  const auto to = [](DType dtype, const Tensor& x) {
    return ops::converted(x, {.dtype = dtype, .layout = x.layout()});
  };
  const auto half = [&](const Tensor& x) { return to(DType::bf16, x); };
  const auto wide = [&](const Tensor& x) { return to(DType::f32, x); };
  const Tensor x = half(x_), weight = half(weight_), bias = half(bias_), incoming = half(incoming_);
  const auto options = with(ConvolutionAlgorithm::winograd);
  const Tensor y = ops::conv2d_forward(x, weight, bias, options);
  EXPECT_EQ(y.dtype(), DType::bf16);
  expect_alike(wide(y), wide(half(ops::conv2d_forward(wide(x), wide(weight), wide(bias), options))), 0);
  const Tensor gradient = ops::conv2d_backward_data(x, weight, incoming, options);
  EXPECT_EQ(gradient.dtype(), DType::bf16);
  expect_alike(wide(gradient), wide(half(ops::conv2d_backward_data(wide(x), wide(weight), wide(incoming), options))),
               0);
  const auto gradients = [&](const Tensor& of_x, const Tensor& of_y) {
    ops::Conv2dWeightGradients sums{.weight = Tensor::zeros(*device_, kWeight, {.layout = weight_.layout()}),
                                    .bias = Tensor::zeros(*device_, {kWeight[0]})};
    ops::conv2d_backward_weights(of_x, of_y, sums, options);
    return sums;
  };
  const auto ours = gradients(x, incoming), of_wide = gradients(wide(x), wide(incoming));
  expect_alike(ours.weight, of_wide.weight, 0);
  expect_alike(ours.bias, of_wide.bias, 0);
}

TEST_F(Winograd, KeepsNanAndInfinityInBf16) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const auto half = [](const Tensor& x) { return ops::converted(x, {.dtype = DType::bf16, .layout = x.layout()}); };
  bias_.data<float>()[0] = std::numeric_limits<float>::quiet_NaN();
  bias_.data<float>()[1] = -kInfinity;
  // NaN whose lowest bits, which a bias in f32 keeps, would carry into the sign.
  bias_.data<float>()[2] = std::bit_cast<float>(0x7fffffff);
  const Tensor computed = ops::conv2d_forward(half(x_), half(weight_), bias_, with(ConvolutionAlgorithm::winograd));
  const std::vector<float> y = values_of(ops::converted(computed, {.layout = computed.layout()}));
  const size_t image = static_cast<size_t>(kY[2] * kY[3]);
  for (size_t i = 0; i < image; ++i) {
    EXPECT_TRUE(std::isnan(y[i]));
    EXPECT_EQ(y[image + i], -kInfinity);
    EXPECT_TRUE(std::isnan(y[2 * image + i]));
    EXPECT_TRUE(std::isfinite(y[3 * image + i]));
  }
}

TEST_F(Winograd, TakeLittleWorkspace) {
  // The transformed weights of 512 x 512 channels would take 38 MB.
  constexpr int64_t kMost = int64_t{16} << 20;
  const Layout layout = ops::conv2d_output_layout(*device_, {512, 512, 3, 3});
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

/// Copies in f32 would take 8 MB and more.
TEST_F(Winograd, MakesNoCopiesOfBf16) {
  const Shape weight_shape = {64, 64, 3, 3};
  const Tensor images = ops::converted(
      formula_tensor(*device_, {32, 64, 32, 32}, {.tensor = 1}, ops::conv2d_output_layout(*device_, weight_shape)),
      {.dtype = DType::bf16, .layout = x_.layout()});
  const Tensor weight =
      formula_tensor(*device_, weight_shape, {.tensor = 2}, ops::conv2d_weight_layout(*device_, weight_shape));
  const auto options = with(ConvolutionAlgorithm::winograd);
  const auto workspace = [&](const Tensor& of) {
    return device_->allocator().peak_during([&] {
      ops::conv2d_forward(of, weight, Tensor(), options);
      ops::conv2d_backward_data(of, weight, of, options);
      const Tensor gradient = Tensor::zeros(*device_, weight_shape, {.layout = weight.layout()});
      ops::conv2d_backward_weights(of, of, {.weight = gradient, .bias = {}}, options);
    })[MemoryPurpose::workspace];
  };
  EXPECT_EQ(workspace(images), workspace(ops::converted(images, {.layout = images.layout()})));
}

struct Images {
  int64_t count, in, out, height, width, padding;
};

class WinogradShapes : public ::testing::TestWithParam<std::tuple<DeviceRow, Images>> {
 protected:
  void SetUp() override {
    if (!ops::has_winograd(*device_)) GTEST_SKIP() << "no AVX2: Winograd convolutions don't run here";
  }
  Tensor images_of(int64_t channels, int64_t height, int64_t width, uint64_t number) {
    const Images& p = std::get<Images>(GetParam());
    return formula_tensor(*device_, {p.count, channels, height, width}, {.tensor = number},
                          ops::conv2d_output_layout(*device_, {p.out, p.in, 3, 3}));
  }

  std::unique_ptr<Device> device_ = std::get<DeviceRow>(GetParam()).open();
};

TEST_P(WinogradShapes, EqualDirectConvolutions) {
  const Images& p = std::get<Images>(GetParam());
  const Shape shape = {p.out, p.in, 3, 3};
  const int64_t shrunk = 2 - 2 * p.padding;
  const Tensor x = images_of(p.in, p.height, p.width, 1),
               weight = formula_tensor(*device_, shape, {.tensor = 2}, ops::conv2d_weight_layout(*device_, shape)),
               bias = formula_tensor(*device_, {p.out}, {.tensor = 3}),
               incoming = images_of(p.out, p.height - shrunk, p.width - shrunk, 4);
  const auto options = [&](ConvolutionAlgorithm algorithm) {
    return ops::Conv2dOptions{.padding = p.padding, .algorithm = algorithm};
  };
  const auto winograd = options(ConvolutionAlgorithm::winograd), direct = options(ConvolutionAlgorithm::direct);
  const Tensor y = ops::conv2d_forward(x, weight, bias, winograd);
  expect_alike(y, ops::conv2d_forward(x, weight, bias, direct));
  expect_zero_padding(y);
  const Tensor gradient = ops::conv2d_backward_data(x, weight, incoming, winograd);
  expect_alike(gradient, ops::conv2d_backward_data(x, weight, incoming, direct));
  expect_zero_padding(gradient);
  const auto sums = [&](const ops::Conv2dOptions& by, Layout layout) {
    ops::Conv2dWeightGradients gradients{.weight = Tensor::zeros(*device_, shape, {.layout = layout}),
                                         .bias = Tensor::zeros(*device_, {p.out})};
    ops::conv2d_backward_weights(x, incoming, gradients, by);
    return gradients;
  };
  for (const Layout layout : {weight.layout(), Layout::plain}) {
    const auto ours = sums(winograd, layout), theirs = sums(direct, layout);
    expect_alike(ours.weight, theirs.weight);
    expect_alike(ours.bias, theirs.bias);
  }
}

/// Of CPU workers: GPUs compute bf16 by cuDNN.
class WinogradShapesInBf16 : public WinogradShapes {};

/// The same sums as in f32, rounded once.
TEST_P(WinogradShapesInBf16, AreThoseOfF32Rounded) {
  const Images& p = std::get<Images>(GetParam());
  const Shape shape = {p.out, p.in, 3, 3};
  const auto rounded = [](const Tensor& x) { return ops::converted(x, {.dtype = DType::bf16, .layout = x.layout()}); };
  const auto wide = [](const Tensor& x) { return ops::converted(x, {.layout = x.layout()}); };
  const Tensor x = rounded(images_of(p.in, p.height, p.width, 1)),
               weight = formula_tensor(*device_, shape, {.tensor = 2}, ops::conv2d_weight_layout(*device_, shape));
  const ops::Conv2dOptions options{.padding = p.padding, .algorithm = ConvolutionAlgorithm::winograd};
  const Tensor y = ops::conv2d_forward(x, weight, Tensor(), options);
  expect_alike(wide(y), wide(rounded(ops::conv2d_forward(wide(x), weight, Tensor(), options))), 0);
  const Tensor gradient = ops::conv2d_backward_data(x, weight, y, options);
  expect_alike(wide(gradient), wide(rounded(ops::conv2d_backward_data(wide(x), weight, wide(y), options))), 0);
  const auto sum = [&](const Tensor& of_x, const Tensor& of_y) {
    const Tensor weights = Tensor::zeros(*device_, shape, {.layout = weight.layout()});
    ops::conv2d_backward_weights(of_x, of_y, {.weight = weights, .bias = {}}, options);
    return weights;
  };
  expect_alike(sum(x, y), sum(wide(x), wide(y)), 0);
}

std::string name_of(const ::testing::TestParamInfo<std::tuple<DeviceRow, Images>>& info) {
  const auto& [row, p] = info.param;
  return fmt::format("{}_{}x{}_to_{}_{}x{}{}", row.name, p.count, p.in, p.out, p.height, p.width,
                     p.padding == 0 ? "_unpadded" : "");
}

const auto kImages =
    ::testing::Values(Images{1, 16, 16, 3, 3, 0}, Images{1, 16, 16, 1, 1, 1}, Images{2, 16, 48, 4, 4, 1},
                      Images{1, 32, 16, 4, 5, 1}, Images{3, 60, 61, 13, 6, 0}, Images{2, 64, 64, 29, 31, 1},
                      Images{40, 32, 32, 16, 16, 1}, Images{9, 160, 176, 14, 14, 1}, Images{70, 128, 96, 4, 4, 1});

INSTANTIATE_TEST_SUITE_P(Shapes, WinogradShapes, ::testing::Combine(::testing::ValuesIn(device_rows()), kImages),
                         name_of);
INSTANTIATE_TEST_SUITE_P(Shapes, WinogradShapesInBf16,
                         ::testing::Combine(::testing::Values(device_rows().front()), kImages), name_of);

/// A sample's outputs and gradients depend neither on the rest of the batch nor on the threads: both where a large
/// batch's weights are transformed once, and where they are too many for that.
TEST(WinogradBits, AreASamplesOwn) {
  for (const Shape& shape : {Shape{144, 150, 3, 3}, Shape{300, 200, 3, 3}}) {
    const int64_t in = shape[1], out = shape[0];
    std::vector<std::vector<float>> outputs, gradients;
    for (const auto& [samples, threads] : {std::pair(1, 1), std::pair(1, 3), std::pair(30, 1), std::pair(30, 2)}) {
      const auto device = test_device(threads);
      if (!ops::has_winograd(*device)) GTEST_SKIP() << "no AVX2: Winograd convolutions don't run here";
      const auto images = [&](int64_t channels, uint64_t number) {
        return formula_tensor(*device, {samples, channels, 9, 10}, {.tensor = number},
                              ops::conv2d_output_layout(*device, shape));
      };
      const Tensor weight = formula_tensor(*device, shape, {.tensor = 2}, ops::conv2d_weight_layout(*device, shape));
      const ops::Conv2dOptions options{.padding = 1};
      const auto first = [](const Tensor& all) { return values_of(all.samples(0, 1)); };
      outputs.push_back(first(ops::conv2d_forward(images(in, 1), weight, Tensor(), options)));
      gradients.push_back(first(ops::conv2d_backward_data(images(in, 1), weight, images(out, 3), options)));
    }
    for (size_t i = 1; i < outputs.size(); ++i) {
      EXPECT_EQ(outputs[i], outputs[0]) << shape.text() << ", " << i;
      EXPECT_EQ(gradients[i], gradients[0]) << shape.text() << ", " << i;
    }
  }
}

}  // namespace conv2d_winograd_test
}  // namespace dptrain
