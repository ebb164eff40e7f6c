// Linear layers against PyTorch.

#include "ops/linear.h"

#include "ops/pytorch_cases.h"
#include "support/expect_error.h"
#include "support/test_device.h"

namespace dptrain {
namespace {

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
    if (bias_.defined()) expect_pytorch(values_["dbias"], without(gradients.bias, 5), tolerance_);
  }
}

INSTANTIATE_TEST_SUITE_P(PyTorch, Linear, ::testing::ValuesIn(pytorch_cases("linear")), CaseName());

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

}  // namespace
}  // namespace dptrain
