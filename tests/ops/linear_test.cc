// Linear layers against PyTorch.

#include "ops/linear.h"

#include <array>
#include <cmath>

#include "ops/pytorch_cases.h"
#include "support/expect_error.h"
#include "support/test_device.h"

namespace dptrain {
namespace linear_test {

using namespace testing;

class Linear : public ::testing::TestWithParam<PyTorchCase> {
 protected:
  Tensor formula(const Shape& shape, uint64_t tensor) const {
    return formula_tensor(*device_, shape, {.tensor = tensor});
  }
  Tensor constant(const Shape& shape, float value) const {
    return tensor_of(*device_, shape, std::vector<float>(shape.elements(), value));
  }

  const nlohmann::json& values_ = GetParam().values;
  std::unique_ptr<Device> device_ = GetParam().row.open();
  double tolerance_ = GetParam().row.tolerance;
  Tensor x_ = formula(GetParam().shape("x"), kX);
  Tensor weight_ = formula(GetParam().shape("weight"), kWeight);
  Tensor bias_ = values_["bias"] ? formula({weight_.shape()[0]}, kBias) : Tensor();
  Tensor incoming_ = formula({x_.shape()[0], weight_.shape()[0]}, kOutputGradient);
};

TEST_P(Linear, Forward) {
  expect_pytorch(values_["y"], ops::linear_forward(x_, weight_, bias_), tolerance_);
  expect_pytorch(values_["y_relu"], ops::linear_forward(x_, weight_, bias_, true), tolerance_);
}

TEST_P(Linear, BackwardData) {
  expect_pytorch(values_["dx"], ops::linear_backward_data(weight_, incoming_), tolerance_);
}

TEST_P(Linear, BackwardDataAddsToASum) {
  const Tensor sum = constant(x_.shape(), 3);
  EXPECT_EQ(ops::linear_backward_data(weight_, incoming_, sum).raw(), sum.raw());
  std::vector<float> added = values_of(sum);
  for (float& value : added) value -= 3;
  expect_pytorch(values_["dx"], tensor_of(*device_, sum.shape(), added), 4 * tolerance_);
}

TEST_P(Linear, BackwardWeightsWritesOrAdds) {
  for (const bool accumulate : {false, true}) {
    SCOPED_TRACE(accumulate ? "added" : "written");
    const ops::LinearWeightGradients gradients{.weight = constant(weight_.shape(), 4),
                                               .bias = bias_.defined() ? constant(bias_.shape(), 5) : Tensor(),
                                               .accumulate_weight = accumulate,
                                               .accumulate_bias = accumulate};
    ops::linear_backward_weights(x_, incoming_, gradients);
    const auto without = [&](const Tensor& tensor, float start) {
      std::vector<float> values = values_of(tensor);
      for (float& value : values) value -= accumulate ? start : 0;
      return tensor_of(*device_, tensor.shape(), values);
    };
    expect_pytorch(values_["dweight"], without(gradients.weight, 4), tolerance_);
    if (!bias_.defined()) continue;
    expect_pytorch(values_["dbias"], without(gradients.bias, 5), tolerance_);
    const Tensor alone = constant(bias_.shape(), 6);
    ops::linear_backward_bias(incoming_, alone, accumulate);
    expect_pytorch(values_["dbias"], without(alone, 6), tolerance_);
  }
}

INSTANTIATE_TEST_SUITE_P(PyTorch, Linear, ::testing::ValuesIn(pytorch_cases("linear")), CaseName());

/// Numbers of both signs with 24 significant bits, between 2^-8 and 2^8 in magnitude.
std::vector<float> with_all_bits(int64_t count, uint32_t seed) {
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) {
    seed = seed * 1664525u + 1013904223u;
    const float magnitude = std::ldexp(1.f, static_cast<int>(seed >> 28) - 8);
    value = (static_cast<float>(seed & 0xffffff) / 0x1.0p23f - 1.f) * magnitude;
  }
  return values;
}

// f32 products have the precision of f32, even if they are computed from bf16 pieces (AMX). The measured error is at
// most 2^-20 of the sum of magnitudes with AVX-512 and 2^-21 with AMX. Without the smallest of the pieces' products it
// exceeds the bound.
TEST(LinearPrecision, IsThatOfF32) {
  const auto device = test_device();
  for (const auto [samples, in, out] : {std::array<int64_t, 3>{37, 300, 45}, {64, 32, 33}, {3, 1100, 70}}) {
    SCOPED_TRACE(in);
    const auto n = static_cast<size_t>(samples), k = static_cast<size_t>(in), m = static_cast<size_t>(out);
    const std::vector<float> x = with_all_bits(samples * in, 1), weight = with_all_bits(out * in, 2),
                             incoming = with_all_bits(samples * out, 3);
    const Tensor x_on = tensor_of(*device, {samples, in}, x), weight_on = tensor_of(*device, {out, in}, weight),
                 incoming_on = tensor_of(*device, {samples, out}, incoming),
                 weight_gradient = Tensor::empty(*device, {out, in});
    ops::linear_backward_weights(x_on, incoming_on, {.weight = weight_gradient, .bias = {}});
    const auto expect_exact = [](const std::vector<float>& got, size_t rows, size_t columns, size_t depth,
                                 const auto& left, const auto& right) {
      for (size_t r = 0; r < rows; ++r)
        for (size_t c = 0; c < columns; ++c) {
          double sum = 0, magnitude = 0;
          for (size_t i = 0; i < depth; ++i) {
            const double product = double{left(r, i)} * right(i, c);
            sum += product;
            magnitude += std::abs(product);
          }
          ASSERT_NEAR(got[r * columns + c], sum, 0x1.0p-19 * magnitude) << r << ", " << c;
        }
    };
    expect_exact(
        values_of(ops::linear_forward(x_on, weight_on, {})), n, m, k, [&](size_t r, size_t i) { return x[r * k + i]; },
        [&](size_t i, size_t c) { return weight[c * k + i]; });
    expect_exact(
        values_of(ops::linear_backward_data(weight_on, incoming_on)), n, k, m,
        [&](size_t r, size_t i) { return incoming[r * m + i]; }, [&](size_t i, size_t c) { return weight[i * k + c]; });
    expect_exact(
        values_of(weight_gradient), m, k, n, [&](size_t r, size_t i) { return incoming[i * m + r]; },
        [&](size_t i, size_t c) { return x[i * k + c]; });
  }
}

TEST(LinearRefuses, WhatDoesNotFit) {
  const auto device = test_device();
  const auto zeros = [&](const Shape& shape) { return Tensor::zeros(*device, shape); };
  expect_error(ExitCode::bug, {"linear", "[2, 3]", "[5, 4]"}, [&] {
    ops::linear_forward(zeros({2, 3}), zeros({5, 4}), {});
  });
  expect_error(ExitCode::bug, {"linear", "bias", "[4]", "[5]"}, [&] {
    ops::linear_forward(zeros({2, 3}), zeros({5, 3}), zeros({4}));
  });
  expect_error(ExitCode::bug, {"linear backward", "weight gradient"}, [&] {
    ops::linear_backward_weights(zeros({2, 3}), zeros({2, 5}), {.weight = zeros({5, 4}), .bias = {}});
  });
  expect_error(ExitCode::bug, {"linear backward", "output gradient"}, [&] {
    ops::linear_backward_data(zeros({5, 3}), zeros({2, 4}));
  });
}

}  // namespace linear_test
}  // namespace dptrain
