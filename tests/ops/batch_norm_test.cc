// Batch normalization against PyTorch, training and evaluation, in every layout.

#include "ops/batch_norm.h"

#include "ops/pytorch_cases.h"
#include "support/expect_error.h"
#include "support/test_device.h"

namespace dptrain {
namespace {

using namespace testing;

class BatchNorm : public ::testing::TestWithParam<PyTorchCase> {
 protected:
  ops::BatchNormInputs inputs(Layout layout, Layout residual_layout) const {
    const Shape x = GetParam().shape("x"), channels = {x[1]};
    return {.x = formula_tensor(*device_, x, {.tensor = kX, .centre = values_["centre"]}, layout),
            .gamma = formula_tensor(*device_, channels, {.tensor = kWeight, .centre = 1}),
            .beta = formula_tensor(*device_, channels, {.tensor = kBias}),
            .running_mean = formula_tensor(*device_, channels, {.tensor = kRunningMean}),
            .running_variance = formula_tensor(*device_, channels, {.tensor = kRunningVariance, .centre = 2}),
            .residual =
                values_["residual"] ? formula_tensor(*device_, x, {.tensor = kResidual}, residual_layout) : Tensor()};
  }

  const nlohmann::json& values_ = GetParam().values;
  std::unique_ptr<Device> device_ = GetParam().row.open();
  double tolerance_ = GetParam().row.tolerance;
  ops::BatchNormOptions options_{.relu = values_["relu"]};
};

TEST_P(BatchNorm, Training) {
  for (const Layout layout : GetParam().row.image_layouts) {
    SCOPED_TRACE(layout_name(layout));
    const ops::BatchNormInputs in = inputs(layout, layout);
    const ops::BatchNormTraining forward = ops::batch_norm_training(in, options_);
    EXPECT_EQ(forward.y.layout(), layout);
    expect_pytorch(values_["y"], forward.y, tolerance_);
    expect_pytorch(values_["running_mean"], in.running_mean, tolerance_);
    expect_pytorch(values_["running_variance"], in.running_variance, tolerance_);
    expect_zero_padding(forward.y);
  }
}

TEST_P(BatchNorm, OnceMoreGivesTheSameBits) {
  for (const Layout layout : GetParam().row.image_layouts)
    for (const bool relu : {false, true}) {
      SCOPED_TRACE(std::string(layout_name(layout)) + (relu ? ", relu" : ""));
      ops::BatchNormInputs in = inputs(layout, layout);
      in.residual = Tensor();  // with one it is refused, as below
      ops::BatchNormOptions options = options_;
      options.relu = relu;
      ops::BatchNormTraining forward = ops::batch_norm_training(in, options);
      const Tensor y = forward.y;
      forward.y = Tensor();
      const std::vector<float> running = values_of(in.running_mean);
      const Tensor again = ops::batch_norm_again(in, forward, options);
      EXPECT_EQ(again.layout(), layout);
      EXPECT_EQ(values_of(again), values_of(y));
      expect_zero_padding(again);
      EXPECT_EQ(values_of(in.running_mean), running);
    }
}

TEST_P(BatchNorm, Evaluation) {
  for (const Layout layout : GetParam().row.image_layouts) {
    SCOPED_TRACE(layout_name(layout));
    const ops::BatchNormInputs in = inputs(layout, layout);
    const std::vector<float> before = values_of(in.running_mean);
    const Tensor y = ops::batch_norm_evaluation(in, options_);
    EXPECT_EQ(y.layout(), layout);
    // The shift beta - mean * scale cancels what a centre far from zero adds.
    expect_pytorch(values_["evaluated"], y, tolerance_);
    expect_zero_padding(y);
    EXPECT_EQ(values_of(in.running_mean), before);
  }
}

TEST_P(BatchNorm, Backward) {
  for (const Layout layout : GetParam().row.image_layouts) {
    // Residual and gradient may come in another layout than x.
    for (const Layout other : {layout, Layout::plain}) {
      SCOPED_TRACE(std::string(layout_name(layout)) + ", others " + std::string(layout_name(other)));
      const ops::BatchNormInputs in = inputs(layout, other);
      const ops::BatchNormTraining forward = ops::batch_norm_training(in, options_);
      const Tensor incoming = formula_tensor(*device_, in.x.shape(), {.tensor = kOutputGradient}, other);
      const ops::BatchNormGradients gradients = ops::batch_norm_backward(in, forward, incoming, options_);
      expect_pytorch(values_["dx"], gradients.x, 2 * tolerance_);
      expect_pytorch(values_["dgamma"], gradients.gamma, 2 * tolerance_);
      expect_pytorch(values_["dbeta"], gradients.beta, tolerance_);
      expect_zero_padding(gradients.x);
      EXPECT_EQ(gradients.residual.defined(), in.residual.defined());
      if (!in.residual.defined()) continue;
      expect_pytorch(values_["dresidual"], gradients.residual, tolerance_);
      expect_zero_padding(gradients.residual);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(PyTorch, BatchNorm, ::testing::ValuesIn(pytorch_cases("batch_norm")), CaseName());

TEST(BatchNormRefuses, WhatDoesNotFit) {
  const auto device = test_device();
  const auto zeros = [&](const Shape& shape) { return Tensor::zeros(*device, shape); };
  ops::BatchNormInputs in{.x = zeros({2, 3, 4, 4}),
                          .gamma = zeros({3}),
                          .beta = zeros({3}),
                          .running_mean = zeros({3}),
                          .running_variance = zeros({4}),
                          .residual = {}};
  expect_error(ExitCode::bug, {"batch_norm", "[4]", "[3]"}, [&] { ops::batch_norm_training(in, {}); });
  in.running_variance = zeros({3});
  in.residual = zeros({2, 3, 4, 5});
  expect_error(ExitCode::bug, {"batch_norm", "residual", "[2, 3, 4, 5]"}, [&] { ops::batch_norm_evaluation(in, {}); });
  in.residual = zeros({2, 3, 4, 4});
  expect_error(ExitCode::bug, {"batch_norm again", "residual"},
               [&] { ops::batch_norm_again(in, ops::batch_norm_by_running(in, {}), {}); });
  in.residual = {};
  const ops::BatchNormTraining forward = ops::batch_norm_training(in, {});
  expect_error(ExitCode::bug, {"batch_norm backward", "output gradient"}, [&] {
    ops::batch_norm_backward(in, forward, zeros({2, 3, 4, 3}), {});
  });
}

}  // namespace
}  // namespace dptrain
