// A convolution and its max pool as one operator, against the two as separate operators. The numbers are whole, so that
// sums in another order are equal too.

#include "ops/conv2d_max_pool.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "device/cpu_bf16.h"
#include "device/cpu_isa.h"
#include "support/formula_tensor.h"
#include "support/test_device.h"

namespace dptrain {
namespace conv2d_max_pool_test {

using namespace testing;

struct PooledConvolution {
  int64_t samples, channels, outputs, height, width, window_height, window_width, padding, pool;
};

void PrintTo(const PooledConvolution& c, std::ostream* out) {
  *out << fmt::format("{} of {}x{}x{} to {}, {}x{} padded by {}, maxima of {}x{}", c.samples, c.channels, c.height,
                      c.width, c.outputs, c.window_height, c.window_width, c.padding, c.pool, c.pool);
}

std::vector<float> whole_numbers(int64_t count, uint64_t tensor, double centre = 0) {
  std::vector<float> values = Formula{.tensor = tensor, .centre = centre, .scale = 4}.values(count);
  for (float& value : values) value = std::round(value);
  return values;
}

class Conv2dMaxPool : public ::testing::TestWithParam<PooledConvolution> {
 protected:
  void SetUp() override {
    if (cpu_isa() == CpuIsa::baseline) GTEST_SKIP() << "no AVX2: the two are computed apart here";
    ASSERT_TRUE(ops::convolves_and_pools(x_, kWeight, options(true)));
  }
  static ops::Conv2dMaxPoolOptions options(bool relu) {
    return {.convolution = {.padding = GetParam().padding},
            .pool = {.kernel = GetParam().pool, .stride = GetParam().pool, .relu = relu}};
  }
  Tensor whole(const Shape& shape, uint64_t tensor, double centre = 0, Layout layout = Layout::plain) {
    return tensor_of(*device_, shape, whole_numbers(shape.elements(), tensor, centre), layout);
  }
  Tensor convolved() { return ops::conv2d_forward(x_, weight_, bias_, options(false).convolution); }
  ops::Pool2dResult apart(bool relu) { return ops::pool2d_forward(convolved(), ops::Pooling::max, options(relu).pool); }
  /// The gradient of the convolution's outputs, computed separately.
  Tensor gradient_apart(const ops::Pool2dResult& result, const Tensor& incoming, bool relu) {
    return ops::pool2d_backward(convolved(), result.workspace, incoming, ops::Pooling::max, options(relu).pool);
  }
  ops::Conv2dWeightGradients gradients(bool accumulate) {
    return {.weight = whole(kWeight, 5),
            .bias = whole({kWeight[0]}, 6),
            .accumulate_weight = accumulate,
            .accumulate_bias = accumulate};
  }

  std::unique_ptr<Device> device_ = test_device(2);
  const Shape kX = {GetParam().samples, GetParam().channels, GetParam().height, GetParam().width};
  const Shape kWeight = {GetParam().outputs, GetParam().channels, GetParam().window_height, GetParam().window_width};
  Tensor x_ = whole(kX, 1, 0, Layout::nhwc);
  Tensor weight_ = whole(kWeight, 2);
  // Sums are mostly negative, so that whole windows are cut.
  Tensor bias_ = whole({kWeight[0]}, 3, -20);
};

TEST_P(Conv2dMaxPool, ForwardHasTheBitsOfTheTwoApart) {
  // Numbers that round.
  x_ = formula_tensor(*device_, kX, {.tensor = 1}, Layout::nhwc);
  weight_ = formula_tensor(*device_, kWeight, {.tensor = 2});
  for (const bool relu : {false, true})
    for (const Tensor& bias : {formula_tensor(*device_, {kWeight[0]}, {.tensor = 3}), Tensor()}) {
      bias_ = bias;
      const ops::Pool2dResult expected = apart(relu),
                              result = ops::conv2d_max_pool_forward(x_, weight_, bias_, options(relu));
      EXPECT_EQ(result.y.layout(), Layout::nhwc);
      EXPECT_EQ(stored_values(result.y), stored_values(expected.y));
      EXPECT_EQ(stored_values<uint8_t>(result.workspace), stored_values<uint8_t>(expected.workspace));
    }
}

TEST_P(Conv2dMaxPool, BackwardData) {
  for (const bool relu : {false, true}) {
    const ops::Pool2dResult result = apart(relu);
    // The gradient may have any layout: a flatten's is plain.
    for (const Layout layout : {Layout::plain, Layout::nhwc}) {
      const Tensor incoming = whole(result.y.shape(), 4, 0, layout);
      const Tensor gradient = ops::conv2d_max_pool_backward_data(
          x_, weight_, {.workspace = result.workspace, .gradient = incoming}, options(relu));
      EXPECT_EQ(gradient.layout(), x_.layout());
      EXPECT_EQ(values_of(gradient),
                values_of(ops::conv2d_backward_data(x_, weight_, gradient_apart(result, incoming, relu),
                                                    options(relu).convolution)));
    }
  }
}

TEST_P(Conv2dMaxPool, BackwardWeights) {
  for (const bool relu : {false, true})
    for (const bool accumulate : {false, true}) {
      const ops::Pool2dResult result = apart(relu);
      const Tensor incoming = whole(result.y.shape(), 4);
      const ops::Conv2dWeightGradients together = gradients(accumulate), expected = gradients(accumulate);
      ops::conv2d_max_pool_backward_weights(x_, {.workspace = result.workspace, .gradient = incoming}, together,
                                            options(relu));
      ops::conv2d_backward_weights(x_, gradient_apart(result, incoming, relu), expected, options(relu).convolution);
      EXPECT_EQ(values_of(together.weight), values_of(expected.weight));
      EXPECT_EQ(values_of(together.bias), values_of(expected.bias));
    }
}

/// In bf16 each result is that of the same numbers in f32, rounded.
TEST_P(Conv2dMaxPool, OfBf16IsThatOfF32Rounded) {
  const auto in = [](const Tensor& tensor, DType dtype) {
    return ops::converted(tensor, {.dtype = dtype, .layout = tensor.layout()});
  };
  const Tensor x = in(formula_tensor(*device_, kX, {.tensor = 1}, Layout::nhwc), DType::bf16);
  const Tensor weight = in(formula_tensor(*device_, kWeight, {.tensor = 2}), DType::bf16);
  const Tensor bias = in(formula_tensor(*device_, {kWeight[0]}, {.tensor = 3}), DType::bf16);
  const auto options = Conv2dMaxPool::options(true);
  if (!ops::convolves_and_pools(x, kWeight, options)) GTEST_SKIP() << "AMX: the two are computed apart in bf16";
  const auto same = [&](const Tensor& got, const Tensor& expected) {
    EXPECT_EQ(got.dtype(), DType::bf16);
    EXPECT_EQ(values_of(in(got, DType::f32)), values_of(in(in(expected, DType::bf16), DType::f32)));
  };
  const auto result = ops::conv2d_max_pool_forward(x, weight, bias, options);
  const Tensor wide_x = in(x, DType::f32), wide_weight = in(weight, DType::f32);
  const auto expected = ops::conv2d_max_pool_forward(wide_x, wide_weight, in(bias, DType::f32), options);
  same(result.y, expected.y);
  EXPECT_EQ(stored_values<uint8_t>(result.workspace), stored_values<uint8_t>(expected.workspace));
  const Tensor incoming = in(formula_tensor(*device_, result.y.shape(), {.tensor = 4}, Layout::nhwc), DType::bf16);
  const ops::MaximaGradient of{.workspace = result.workspace, .gradient = incoming},
      wide{.workspace = result.workspace, .gradient = in(incoming, DType::f32)};
  same(ops::conv2d_max_pool_backward_data(x, weight, of, options),
       ops::conv2d_max_pool_backward_data(wide_x, wide_weight, wide, options));
  const auto together = gradients(true), apart = gradients(true);
  ops::conv2d_max_pool_backward_weights(x, of, together, options);
  ops::conv2d_max_pool_backward_weights(wide_x, wide, apart, options);
  EXPECT_EQ(values_of(together.weight), values_of(apart.weight));
  EXPECT_EQ(values_of(together.bias), values_of(apart.bias));
}

/// The last sample alone equals the same sample in the batch, on one thread and on two.
TEST_P(Conv2dMaxPool, ASamplesBitsAreItsOwn) {
  x_ = formula_tensor(*device_, kX, {.tensor = 1}, Layout::nhwc);
  weight_ = formula_tensor(*device_, kWeight, {.tensor = 2});
  const auto last_of = [](const Tensor& images) {
    const std::vector<float> values = values_of(images);
    return std::vector<float>(values.end() - images.elements() / images.shape()[0], values.end());
  };
  const auto alone = [&](const Tensor& images) {
    return tensor_of(*device_, images.shape().with_first(1), last_of(images), images.layout());
  };
  const ops::Pool2dResult all = ops::conv2d_max_pool_forward(x_, weight_, bias_, options(true)),
                          one = ops::conv2d_max_pool_forward(alone(x_), weight_, bias_, options(true));
  EXPECT_EQ(last_of(all.y), values_of(one.y));
  const Tensor incoming = formula_tensor(*device_, all.y.shape(), {.tensor = 4}, Layout::nhwc);
  const auto gradient = [&](const Tensor& x, const ops::Pool2dResult& result, const Tensor& of_y) {
    return ops::conv2d_max_pool_backward_data(x, weight_, {.workspace = result.workspace, .gradient = of_y},
                                              options(true));
  };
  EXPECT_EQ(last_of(gradient(x_, all, incoming)), values_of(gradient(alone(x_), one, alone(incoming))));
}

// LeNet's two convolutions, with samples that fill two vectors, three and a part, and one lane. Then windows that
// aren't square, rows and columns that no pool window covers, padding wider than half of a window, one maximum per
// image, and window rows of more vectors than a tile has.
INSTANTIATE_TEST_SUITE_P(Shapes, Conv2dMaxPool,
                         ::testing::Values(PooledConvolution{33, 1, 20, 28, 28, 5, 5, 0, 2},
                                           PooledConvolution{37, 20, 50, 12, 12, 5, 5, 0, 2},
                                           PooledConvolution{1, 20, 50, 12, 12, 5, 5, 0, 2},
                                           PooledConvolution{5, 6, 10, 9, 7, 2, 3, 1, 2},
                                           PooledConvolution{18, 7, 13, 4, 5, 3, 3, 2, 3},
                                           PooledConvolution{3, 20, 17, 6, 6, 5, 5, 0, 2},
                                           PooledConvolution{4, 40, 20, 9, 9, 6, 7, 1, 2}));

TEST(Conv2dMaxPoolRule, LeavesTheRestApart) {
  const auto device = test_device(1);
  const Tensor x = formula_tensor(*device, {2, 1, 28, 28}, {});
  const Shape weight = {20, 1, 5, 5};
  const bool here = cpu_isa() != CpuIsa::baseline;
  EXPECT_EQ(ops::convolves_and_pools(x, weight, {}), here);
  EXPECT_FALSE(ops::convolves_and_pools(x, weight, {.pool = {.kernel = 3, .stride = 2}})) << "windows overlap";
  EXPECT_FALSE(ops::convolves_and_pools(x, weight, {.pool = {.padding = 1}})) << "windows hang over";
  EXPECT_FALSE(ops::convolves_and_pools(x, weight, {.pool = {.ceil = true}})) << "windows hang over";
  EXPECT_FALSE(ops::convolves_and_pools(x, weight, {.convolution = {.stride = 2}})) << "oneDNN's convolution";
  EXPECT_FALSE(ops::convolves_and_pools(x, weight, {.pool = {.kernel = 25, .stride = 25}})) << "no maximum";
  const auto half = [&](const Shape& shape) { return Tensor::empty(*device, shape, {.dtype = DType::bf16}); };
  EXPECT_EQ(ops::convolves_and_pools(half(x.shape()), weight, {}), here);
  const bool tiles = cpu_bf16_unit() == Bf16Unit::amx;
  EXPECT_EQ(ops::convolves_and_pools(half({2, 20, 12, 12}), {50, 20, 5, 5}, {}), here && !tiles);
}

}  // namespace conv2d_max_pool_test
}  // namespace dptrain
