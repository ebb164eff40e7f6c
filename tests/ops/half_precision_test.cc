// Operators in bf16 and f16 on GPUs, and in bf16 on CPU workers, against the CPU worker's f32, from inputs that both
// hold exactly.

#include <bit>
#include <cmath>
#include <limits>

#include "ops/activation.h"
#include "ops/add.h"
#include "ops/add_padded.h"
#include "ops/attention.h"
#include "ops/batch_norm.h"
#include "ops/conv2d.h"
#include "ops/cross_entropy.h"
#include "ops/dropout.h"
#include "ops/embedding.h"
#include "ops/gelu.h"
#include "ops/layer_norm.h"
#include "ops/linear.h"
#include "ops/pool2d.h"
#include "ops/reorder.h"
#include "ops/sgd.h"
#include "support/device_rows.h"
#include "support/formula_tensor.h"
#include "support/test_device.h"

namespace dptrain {
namespace half_precision_test {

using namespace testing;

struct HalfRow {
  DeviceRow device;
  DType dtype;
  double rounding;  ///< half a unit in the last place, relative
};

std::ostream& operator<<(std::ostream& out, const HalfRow& row) { return out << row.device; }

/// A device in half precision, and the CPU worker that gives the right values.
class HalfPrecision : public ::testing::TestWithParam<HalfRow> {
 protected:
  /// Values that half precision holds: multiples of 1/16 up to 1, so that inputs aren't rounded.
  static std::vector<float> sixteenths(int64_t count, uint64_t tensor) {
    std::vector<float> values = Formula{.tensor = tensor}.values(count);
    for (float& value : values) value = std::round(value * 16) / 16;
    return values;
  }
  Tensor expected(const Shape& shape, uint64_t tensor, Layout layout = Layout::plain) const {
    return tensor_of(*cpu_, shape, sixteenths(shape.elements(), tensor), layout);
  }
  Tensor given(const Shape& shape, uint64_t tensor) const {
    return ops::converted(Tensor::from(*half_, shape, sixteenths(shape.elements(), tensor)),
                          {.dtype = GetParam().dtype, .layout = layouts_of(GetParam().device, shape).front()});
  }
  /// Weights in the layout in which a model keeps them.
  Tensor given_weights(const Shape& shape, uint64_t tensor) const {
    return ops::converted(Tensor::from(*half_, shape, sixteenths(shape.elements(), tensor)),
                          {.dtype = GetParam().dtype, .layout = ops::conv2d_weight_layout(*half_, shape)});
  }
  Tensor given_f32(const Shape& shape, uint64_t tensor) const {
    return Tensor::from(*half_, shape, sixteenths(shape.elements(), tensor));
  }
  /// Expects equality within the rounding of the result and of intermediate values.
  void expect_near(const Tensor& got, const Tensor& right, double roundings = 1) const {
    ASSERT_EQ(got.shape(), right.shape());
    const auto g = ops::converted(got, {.dtype = DType::f32}).values();
    expect_zero_padding(ops::converted(got, {.dtype = DType::f32, .layout = got.layout()}));
    const auto e = values_of(right);
    double largest = 0;
    for (const float value : e) largest = std::max(largest, double{std::abs(value)});
    const double bound = roundings * GetParam().rounding * largest + 1e-7;
    size_t wrong = 0, first = 0;
    for (size_t i = 0; i < e.size(); ++i)
      if (!(std::abs(double{g[i]} - double{e[i]}) <= bound) && wrong++ == 0) first = i;
    EXPECT_EQ(wrong, 0U) << "of " << got.text() << "; element " << first << " is " << g[first] << ", not " << e[first]
                         << " within " << bound;
  }

  std::unique_ptr<Device> half_ = GetParam().device.open();
  std::unique_ptr<Device> cpu_ = test_device();
};

TEST_P(HalfPrecision, ConversionsRoundToNearestEven) {
  const bool bf16 = GetParam().dtype == DType::bf16;
  const float unit = bf16 ? 0x1p-7f : 0x1p-10f;
  const Tensor x = Tensor::from(*half_, {4}, {{1 + unit / 2, 1 + unit * 1.5f, 1 + unit * 0.51f, -1 - unit * 0.49f}});
  const Tensor there = ops::converted(x, {.dtype = GetParam().dtype});
  EXPECT_EQ(ops::converted(there, {.dtype = DType::f32}).values(), (std::vector<float>{1, 1 + 2 * unit, 1 + unit, -1}));
}

TEST_P(HalfPrecision, ConversionsKeepNumbersWithoutEnd) {
  const float infinity = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  const float largest = std::numeric_limits<float>::max();
  // The second NaN's payload is in the bits that half precision drops.
  const Tensor x = Tensor::from(*half_, {5}, {{infinity, -infinity, largest, nan, std::bit_cast<float>(0xff800001)}});
  const auto back = ops::converted(ops::converted(x, {.dtype = GetParam().dtype}), {.dtype = DType::f32}).values();
  EXPECT_EQ(back[0], infinity);
  EXPECT_EQ(back[1], -infinity);
  EXPECT_EQ(back[2], infinity);
  EXPECT_TRUE(std::isnan(back[3]));
  EXPECT_TRUE(std::isnan(back[4]));
}

TEST_P(HalfPrecision, Elementwise) {
  // Whole packs of a GPU and not; several pieces of work of a CPU worker, for both of its threads.
  for (const Shape& shape : {Shape{64}, Shape{37}, Shape{40001}}) {
    const Tensor a = given(shape, 0), b = given(shape, 1), x = expected(shape, 0), y = expected(shape, 1);
    expect_near(ops::add(a, b), ops::add(x, y));
    expect_near(ops::activation_forward(ops::kRelu, a), ops::activation_forward(ops::kRelu, x), 0);
    expect_near(ops::activation_backward(ops::kRelu, a, b), ops::activation_backward(ops::kRelu, x, y), 0);
    expect_near(ops::activation_forward(ops::kGelu, a), ops::activation_forward(ops::kGelu, x));
    expect_near(ops::activation_backward(ops::kGelu, a, b), ops::activation_backward(ops::kGelu, x, y));
    expect_near(ops::activation_forward(ops::kTanh, a), ops::activation_forward(ops::kTanh, x));
    expect_near(ops::activation_backward(ops::kTanh, a, b), ops::activation_backward(ops::kTanh, x, y));
    for (const ops::Activation& function : {ops::kSigmoid, ops::kSilu, ops::leaky_relu(0.1f)}) {
      expect_near(ops::activation_forward(function, a), ops::activation_forward(function, x));
      expect_near(ops::activation_backward(function, a, b), ops::activation_backward(function, x, y));
    }
    EXPECT_EQ(ops::add(a, b).dtype(), GetParam().dtype);
    const Tensor sum = given(shape, 0);
    ops::add_into(sum, b);
    expect_near(sum, ops::add(x, y));
  }
}

TEST_P(HalfPrecision, GeluWithABias) {
  for (const Shape& shape : {Shape{70, 24}, Shape{33, 5}}) {
    const Tensor bias = Tensor::zeros(*half_, {shape[1]}), right = Tensor::zeros(*cpu_, {shape[1]});
    expect_near(ops::gelu_backward(given(shape, 0), given(shape, 1), {.target = bias}),
                ops::gelu_backward(expected(shape, 0), expected(shape, 1), {.target = right}));
    // A CPU worker adds up rounded values.
    expect_near(bias, right, GetParam().device.device.kind == DeviceKind::cuda ? 0.01 : 4);
  }
}

TEST_P(HalfPrecision, Convolution) {
  // Channels of whole packs of 16 bytes, and not.
  for (const int64_t channels : {int64_t{16}, int64_t{5}}) {
    const Shape image = {2, channels, 5, 6}, weight = {channels + 3, channels, 3, 3}, bias = {channels + 3};
    const ops::Conv2dOptions options{.padding = 1, .relu = true};
    const Tensor y = ops::conv2d_forward(given(image, 0), given_weights(weight, 1), given(bias, 2), options);
    const Tensor right = ops::conv2d_forward(expected(image, 0), expected(weight, 1), expected(bias, 2), options);
    EXPECT_EQ(y.dtype(), GetParam().dtype);
    expect_near(y, right, 2);
    const Shape out = y.shape();
    expect_near(ops::conv2d_backward_data(given(image, 0), given_weights(weight, 1), given(out, 3), {.padding = 1}),
                ops::conv2d_backward_data(expected(image, 0), expected(weight, 1), expected(out, 3), {.padding = 1}),
                2);
    const ops::Conv2dWeightGradients gradients{
        .weight = given_f32(weight, 4), .bias = given_f32(bias, 5), .accumulate_weight = true, .accumulate_bias = true};
    const ops::Conv2dWeightGradients right_gradients{
        .weight = expected(weight, 4), .bias = expected(bias, 5), .accumulate_weight = true, .accumulate_bias = true};
    ops::conv2d_backward_weights(given(image, 0), given(out, 3), gradients, {.padding = 1});
    ops::conv2d_backward_weights(expected(image, 0), expected(out, 3), right_gradients, {.padding = 1});
    expect_near(gradients.weight, right_gradients.weight, 2);
    expect_near(gradients.bias, right_gradients.bias);
  }
}

TEST_P(HalfPrecision, Linear) {
  for (const Shape& weight : {Shape{10, 24}, Shape{70, 24}})
    for (const int64_t rows : {int64_t{7}, int64_t{300}}) {
      const Shape x = {rows, 24}, bias = {weight[0]}, out = {rows, weight[0]};
      expect_near(ops::linear_forward(given(x, 0), given(weight, 1), given(bias, 2), true),
                  ops::linear_forward(expected(x, 0), expected(weight, 1), expected(bias, 2), true), 2);
      expect_near(ops::linear_backward_data(given(weight, 1), given(out, 3)),
                  ops::linear_backward_data(expected(weight, 1), expected(out, 3)), 2);
      for (const bool accumulate : {false, true}) {
        const ops::LinearWeightGradients got{given_f32(weight, 4), given_f32(bias, 5), accumulate, accumulate};
        const ops::LinearWeightGradients right{expected(weight, 4), expected(bias, 5), accumulate, accumulate};
        ops::linear_backward_weights(given(x, 0), given(out, 3), got);
        ops::linear_backward_weights(expected(x, 0), expected(out, 3), right);
        expect_near(got.weight, right.weight, 1e-2);  // kept in f32
        expect_near(got.bias, right.bias, 1e-2);
      }
    }
}

TEST_P(HalfPrecision, BatchNorm) {
  // The last image needs several pieces of a CPU worker where 16 or more channels are adjacent.
  for (const Shape& image : {Shape{3, 16, 4, 5}, Shape{3, 5, 4, 5}, Shape{2, 24, 14, 33}}) {
    const Shape per_channel = {image[1]};
    const auto inputs = [&](const auto& images, const auto& numbers) {
      return ops::BatchNormInputs{.x = images(image, 0),
                                  .gamma = numbers(per_channel, 1),
                                  .beta = numbers(per_channel, 2),
                                  .running_mean = numbers(per_channel, 3),
                                  .running_variance = numbers(per_channel, 4),
                                  .residual = images(image, 5)};
    };
    const auto here = [&](const Shape& s, uint64_t t) { return given(s, t); };
    const auto here_f32 = [&](const Shape& s, uint64_t t) { return given_f32(s, t); };
    const auto there = [&](const Shape& s, uint64_t t) { return expected(s, t); };
    const auto got_in = inputs(here, here_f32), right_in = inputs(there, there);
    const auto got = ops::batch_norm_training(got_in, {.relu = true});
    const auto right = ops::batch_norm_training(right_in, {.relu = true});
    expect_near(got.y, right.y, 2);
    expect_near(got.mean, right.mean, 1e-2);
    expect_near(got_in.running_variance, right_in.running_variance, 1e-2);
    const auto sinks = ops::BatchNormSinks::of(got_in), right_sinks = ops::BatchNormSinks::of(right_in);
    const auto gradients = ops::batch_norm_backward(got_in, got, given(image, 6), sinks, {.relu = true});
    const auto right_gradients =
        ops::batch_norm_backward(right_in, right, expected(image, 6), right_sinks, {.relu = true});
    expect_near(gradients.x, right_gradients.x, 2);
    expect_near(gradients.residual, right_gradients.residual, 0);
    expect_near(sinks.gamma, right_sinks.gamma, 1e-2);
    expect_near(sinks.beta, right_sinks.beta, 1e-2);
  }
}

TEST_P(HalfPrecision, LayerNorm) {
  for (const int64_t width : std::vector<int64_t>{40, 5, 304, 768, 1000}) {
    const Shape rows = {33, width}, parameter = {width};
    const auto got = ops::layer_norm_forward({.x = given(rows, 0),
                                              .residual = given(rows, 1),
                                              .gamma = given_f32(parameter, 2),
                                              .beta = given_f32(parameter, 3)},
                                             1e-5f);
    const auto right = ops::layer_norm_forward({.x = expected(rows, 0),
                                                .residual = expected(rows, 1),
                                                .gamma = expected(parameter, 2),
                                                .beta = expected(parameter, 3)},
                                               1e-5f);
    expect_near(got.y, right.y);
    expect_near(got.sum, right.sum);
    const ops::LayerNormParameterGradients sums{.gamma = given_f32(parameter, 4), .beta = given_f32(parameter, 5)};
    const ops::LayerNormParameterGradients right_sums{.gamma = expected(parameter, 4), .beta = expected(parameter, 5)};
    expect_near(ops::layer_norm_backward(got, given_f32(parameter, 2), given(rows, 6), sums).x,
                ops::layer_norm_backward(right, expected(parameter, 2), expected(rows, 6), right_sums).x);
    expect_near(sums.gamma, right_sums.gamma, 1e-2);
    expect_near(sums.beta, right_sums.beta, 1e-2);
  }
}

TEST_P(HalfPrecision, AddPadded) {
  for (const Shape& fewer : {Shape{2, 16, 3, 2}, Shape{2, 13, 3, 2}, Shape{2, 16, 19, 17}}) {
    const Shape more = {2, 24, fewer[2], fewer[3]};
    expect_near(ops::add_padded(given(more, 0), given(fewer, 1)),
                ops::add_padded(expected(more, 0), expected(fewer, 1)));
    expect_near(ops::first_channels(given(more, 0), fewer), ops::first_channels(expected(more, 0), fewer), 0);
  }
}

TEST_P(HalfPrecision, Attention) {
  for (const int64_t width : {int64_t{16}, int64_t{6}}) {
    const Shape shape = {2, 9, width};
    const auto options = [](Device& device) {
      return ops::AttentionOptions{
          .heads = 2,
          .dropout = 0.25f,
          .key = {.seed = 3, .epoch = epoch_on(device, 1), .sample_ids = sample_ids_on(device, 0, 2)}};
    };
    const ops::AttentionInputs in{.query = given(shape, 0),
                                  .key = given(shape, 1),
                                  .value = given(shape, 2),
                                  .lengths = labels_on(*half_, {9, 4})};
    const ops::AttentionInputs right_in{.query = expected(shape, 0),
                                        .key = expected(shape, 1),
                                        .value = expected(shape, 2),
                                        .lengths = labels_on(*cpu_, {9, 4})};
    const auto got = ops::attention_forward(in, options(*half_));
    const auto right = ops::attention_forward(right_in, options(*cpu_));
    EXPECT_EQ(got.y.dtype(), GetParam().dtype);
    // Probabilities are rounded as operands of the product; then the result is rounded.
    expect_near(got.y, right.y, 3);
    const auto gradients = ops::attention_backward(in, got, given(shape, 3), options(*half_));
    const auto right_gradients = ops::attention_backward(right_in, right, expected(shape, 3), options(*cpu_));
    expect_near(gradients.value, right_gradients.value, 3);
    expect_near(gradients.query, right_gradients.query, 4);
    expect_near(gradients.key, right_gradients.key, 4);
  }
}

TEST_P(HalfPrecision, Embedding) {
  const auto ids = formula_labels(3, 70, 5);
  for (const int64_t width : {int64_t{16}, int64_t{5}}) {
    const Shape table = {5, width}, rows = {70, width};
    const Tensor here = labels_on(*half_, ids), there = labels_on(*cpu_, ids);
    expect_near(ops::embedding_forward(given(table, 0), here), ops::embedding_forward(expected(table, 0), there), 0);
    const Tensor got = given_f32(table, 1), right = expected(table, 1);
    ops::embedding_backward(here, given(rows, 2), got, {.accumulate = true});
    ops::embedding_backward(there, expected(rows, 2), right, {.accumulate = true});
    expect_near(got, right, 0);  // sums of sixteenths
  }
}

TEST_P(HalfPrecision, Pooling) {
  // The samples of the second image need two blocks and a part of one.
  for (const Shape& image : {Shape{2, 6, 6, 4}, Shape{5, 33, 50, 64}})
    for (const ops::Pooling pooling : {ops::Pooling::max, ops::Pooling::average}) {
      const auto got = ops::pool2d_forward(given(image, 0), pooling, {});
      const auto right = ops::pool2d_forward(expected(image, 0), pooling, {});
      expect_near(got.y, right.y);
      expect_near(ops::pool2d_backward(given(image, 0), got.workspace, given(got.y.shape(), 1), pooling, {}),
                  ops::pool2d_backward(expected(image, 0), right.workspace, expected(got.y.shape(), 1), pooling, {}));
    }
  const Shape image = {2, 6, 6, 4};
  expect_near(ops::global_average_pool_forward(given(image, 0)), ops::global_average_pool_forward(expected(image, 0)));
  expect_near(ops::global_average_pool_backward(given(image, 0), given({2, 6}, 1)),
              ops::global_average_pool_backward(expected(image, 0), expected({2, 6}, 1)));
}

TEST_P(HalfPrecision, CrossEntropy) {
  const auto labels = formula_labels(3, 9, 10);
  const Tensor here = labels_on(*half_, labels), there = labels_on(*cpu_, labels);
  const auto got = stored_values<double>(ops::cross_entropy_forward(given({9, 10}, 0), here));
  const auto right = stored_values<double>(ops::cross_entropy_forward(expected({9, 10}, 0), there));
  for (size_t n = 0; n < right.size(); ++n) EXPECT_NEAR(got[n], right[n], 1e-12);
  expect_near(ops::cross_entropy_backward(given({9, 10}, 0), here, {.scale = 0.5}),
              ops::cross_entropy_backward(expected({9, 10}, 0), there, {.scale = 0.5}));
  EXPECT_EQ(integers_of(ops::correct_samples(given({9, 10}, 0), here)),
            integers_of(ops::correct_samples(expected({9, 10}, 0), there)));
}

TEST_P(HalfPrecision, DropoutDropsTheSameElements) {
  const Shape image = {3, 5, 2, 3};
  const auto key = [](Device& device) {
    return ops::DropoutKey{
        .seed = 3, .layer = 1, .epoch = epoch_on(device, 2), .sample_ids = sample_ids_on(device, 4, 7)};
  };
  expect_near(ops::dropout_forward(given(image, 0), 0.5f, key(*half_)).y,
              ops::dropout_forward(expected(image, 0), 0.5f, key(*cpu_)).y, 0);
}

TEST_P(HalfPrecision, TheOptimizerWritesTheCopy) {
  for (const Shape& shape : {Shape{64}, Shape{37}}) {
    const Tensor weights = given_f32(shape, 0), copy = given(shape, 1), right = expected(shape, 0);
    const ops::SgdOptions options{.learning_rate = 0.1, .weight_decay = 0.1};
    ops::SgdOptions with_copy = options;
    with_copy.copy = copy;
    ops::sgd_step(weights, given_f32(shape, 2), {}, with_copy);
    ops::sgd_step(right, expected(shape, 2), {}, options);
    expect_near(weights, right, 1e-3);
    expect_near(copy, right);
  }
}

const DeviceId kGpu = {DeviceKind::cuda, 0}, kWorker = {DeviceKind::cpu, 0};

INSTANTIATE_TEST_SUITE_P(Cuda, HalfPrecision,
                         ::testing::Values(HalfRow{{"cuda_bf16", kGpu, 0, {Layout::nhwc}}, DType::bf16, 0x1p-8},
                                           HalfRow{{"cuda_f16", kGpu, 0, {Layout::nhwc}}, DType::f16, 0x1p-11}),
                         [](const auto& test) { return test.param.device.name; });
INSTANTIATE_TEST_SUITE_P(
    Cpu, HalfPrecision,
    ::testing::Values(HalfRow{{"cpu_bf16_plain", kWorker, 0, {Layout::plain}}, DType::bf16, 0x1p-8},
                      HalfRow{{"cpu_bf16_nhwc", kWorker, 0, {Layout::nhwc}}, DType::bf16, 0x1p-8},
                      HalfRow{{"cpu_bf16_nchw8c", kWorker, 0, {Layout::nchw8c}}, DType::bf16, 0x1p-8},
                      HalfRow{{"cpu_bf16_nchw16c", kWorker, 0, {Layout::nchw16c}}, DType::bf16, 0x1p-8}),
    [](const auto& test) { return test.param.device.name; });

}  // namespace half_precision_test
}  // namespace dptrain
