// Pooling against PyTorch, in every layout.

#include "ops/pool2d.h"

#include <cmath>

#include "ops/activation.h"
#include "ops/pytorch_cases.h"
#include "support/expect_error.h"
#include "support/test_device.h"

namespace dptrain {
namespace pool2d_test {

using namespace testing;
using ops::Pooling;

class Pool2d : public ::testing::TestWithParam<PyTorchCase> {};
class MaxPool2d : public Pool2d {};

TEST_P(Pool2d, ForwardAndBackward) {
  const auto& values = GetParam().values;
  const auto device = GetParam().row.open();
  const Pooling pooling = values["kind"] == "max" ? Pooling::max : Pooling::average;
  const ops::Pool2dOptions options{
      .kernel = values["kernel"], .stride = values["stride"], .padding = values["padding"], .ceil = values["ceil"]};
  for (const Layout layout : GetParam().row.image_layouts) {
    SCOPED_TRACE(layout_name(layout));
    const Tensor x = formula_tensor(*device, GetParam().shape("x"), {.tensor = kX}, layout);
    const ops::Pool2dResult result = ops::pool2d_forward(x, pooling, options);
    ASSERT_EQ(result.y.shape(), GetParam().shape("output"));
    EXPECT_EQ(result.y.layout(), layout);
    expect_pytorch(values["y"], result.y, GetParam().row.tolerance);
    expect_zero_padding(result.y);
    // The gradient may have any layout: a flatten's is plain.
    for (const Layout of_gradient : {Layout::plain, layout}) {
      const Tensor incoming = formula_tensor(*device, result.y.shape(), {.tensor = kOutputGradient}, of_gradient);
      const Tensor gradient = ops::pool2d_backward(x, result.workspace, incoming, pooling, options);
      EXPECT_EQ(gradient.layout(), layout);
      expect_pytorch(values["dx"], gradient, GetParam().row.tolerance);
      expect_zero_padding(gradient);
    }
  }
}

/// Maxima with the ReLU in the same pass equal a ReLU before the pool bit for bit, forward and backward.
TEST_P(MaxPool2d, ReluInTheSamePass) {
  const auto& values = GetParam().values;
  const auto device = GetParam().row.open();
  ops::Pool2dOptions apart{
      .kernel = values["kernel"], .stride = values["stride"], .padding = values["padding"], .ceil = values["ceil"]};
  ops::Pool2dOptions together = apart;
  together.relu = true;
  Shape shape = GetParam().shape("x");
  for (const int64_t channels : {shape[1], int64_t{20}, int64_t{7}}) {  // whole vectors, and a remainder
    shape = {shape[0], channels, shape[2], shape[3]};
    for (const Layout layout : GetParam().row.image_layouts) {
      SCOPED_TRACE(std::string(layout_name(layout)) + ", channels " + std::to_string(channels));
      // Mostly negative, so that whole windows are cut; rounded, so that maxima are often equal.
      std::vector<float> numbers = Formula{.tensor = kX, .centre = -0.4}.values(shape.elements());
      for (float& number : numbers) number = std::round(number * 4) / 4;
      const Tensor x = tensor_of(*device, shape, numbers, layout);
      const Tensor positive = ops::activation_forward(ops::kRelu, x);
      const auto expected = ops::pool2d_forward(positive, Pooling::max, apart);
      const auto got = ops::pool2d_forward(x, Pooling::max, together);
      EXPECT_EQ(values_of(got.y), values_of(expected.y));
      expect_zero_padding(got.y);
      const Tensor incoming = formula_tensor(*device, got.y.shape(), {.tensor = kOutputGradient}, layout);
      const Tensor gradient = ops::pool2d_backward(x, got.workspace, incoming, Pooling::max, together);
      const Tensor right = ops::activation_backward(
          ops::kRelu, positive, ops::pool2d_backward(positive, expected.workspace, incoming, Pooling::max, apart));
      EXPECT_EQ(values_of(gradient), values_of(right));
      expect_zero_padding(gradient);
    }
  }
}

TEST_P(MaxPool2d, ANanIsTheLargest) {
  const auto& values = GetParam().values;
  const auto device = GetParam().row.open();
  const ops::Pool2dOptions options{
      .kernel = values["kernel"], .stride = values["stride"], .padding = values["padding"], .ceil = values["ceil"]};
  const Shape shape = GetParam().shape("x");
  for (const Layout layout : GetParam().row.image_layouts) {
    std::vector<float> numbers(static_cast<size_t>(shape.elements()), 1.f);
    numbers[0] = NAN;
    const auto pooled =
        values_of(ops::pool2d_forward(tensor_of(*device, shape, numbers, layout), Pooling::max, options).y);
    EXPECT_TRUE(std::isnan(pooled[0])) << layout_name(layout);
    EXPECT_EQ(pooled.back(), 1.f);
  }
}

std::vector<PyTorchCase> max_cases() {
  std::vector<PyTorchCase> cases = pytorch_cases("pool2d");
  std::erase_if(cases, [](const PyTorchCase& one) { return one.values["kind"] != "max"; });
  return cases;
}

INSTANTIATE_TEST_SUITE_P(PyTorch, Pool2d, ::testing::ValuesIn(pytorch_cases("pool2d")), CaseName());
INSTANTIATE_TEST_SUITE_P(PyTorch, MaxPool2d, ::testing::ValuesIn(max_cases()), CaseName());

class GlobalAveragePool : public ::testing::TestWithParam<PyTorchCase> {};

TEST_P(GlobalAveragePool, ForwardAndBackward) {
  const auto device = GetParam().row.open();
  for (const Layout layout : GetParam().row.image_layouts) {
    SCOPED_TRACE(layout_name(layout));
    const Tensor x = formula_tensor(*device, GetParam().shape("x"), {.tensor = kX}, layout);
    const Tensor y = ops::global_average_pool_forward(x);
    expect_pytorch(GetParam().values["y"], y, GetParam().row.tolerance);
    const Tensor incoming = formula_tensor(*device, y.shape(), {.tensor = kOutputGradient});
    const Tensor gradient = ops::global_average_pool_backward(x, incoming);
    EXPECT_EQ(gradient.layout(), layout);
    expect_pytorch(GetParam().values["dx"], gradient, GetParam().row.tolerance);
    expect_zero_padding(gradient);
  }
}

INSTANTIATE_TEST_SUITE_P(PyTorch, GlobalAveragePool, ::testing::ValuesIn(pytorch_cases("global_average_pool")),
                         CaseName());

TEST(Pool2dRefuses, WhatDoesNotFit) {
  const auto device = test_device();
  const auto pooled = [&](const Shape& shape, Pooling pooling, const ops::Pool2dOptions& options) {
    return ops::pool2d_forward(Tensor::zeros(*device, shape), pooling, options).y.shape();
  };
  expect_error(ExitCode::bug, {"[1, 3, 4, 1]", "smaller than the window 2"}, [&] {
    pooled({1, 3, 4, 1}, Pooling::max, {});
  });
  expect_error(ExitCode::bug, {"[1, 3, 2, 8]", "smaller than the window 5"}, [&] {
    pooled({1, 3, 2, 8}, Pooling::max, {.kernel = 5, .stride = 4});
  });
  expect_error(ExitCode::bug, {"a ReLU of averages"}, [&] { pooled({1, 3, 4, 4}, Pooling::average, {.relu = true}); });
  expect_error(ExitCode::bug, {"a ReLU", "window of 16"}, [&] {
    pooled({1, 3, 16, 16}, Pooling::max, {.kernel = 16, .relu = true});
  });
  // With a ceiling one window may extend over both edges, as in PyTorch.
  EXPECT_EQ(pooled({1, 3, 1, 1}, Pooling::max, {.ceil = true}), (Shape{1, 3, 1, 1}));
  expect_error(ExitCode::bug, {"an average with padding 1 and a ceiling"}, [&] {
    pooled({1, 3, 8, 8}, Pooling::average, {.kernel = 3, .padding = 1, .ceil = true});
  });
  expect_error(ExitCode::bug, {"pool2d: input [4, 4]"}, [&] { pooled({4, 4}, Pooling::max, {}); });
}

}  // namespace pool2d_test
}  // namespace dptrain
