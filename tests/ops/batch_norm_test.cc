// Batch normalization against PyTorch, training and evaluation, in every layout.

#include "ops/batch_norm.h"

#include <algorithm>
#include <cmath>

#include "ops/add.h"
#include "ops/add_padded.h"
#include "ops/pytorch_cases.h"
#include "ops/reorder.h"
#include "support/device_rows.h"
#include "support/expect_error.h"
#include "support/test_device.h"

namespace dptrain {
namespace batch_norm_test {

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
  ops::BatchNormOptions options_{.relu = values_["relu"], .epsilon = values_["eps"], .momentum = values_["momentum"]};
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
      in.residual = Tensor();  // evaluation with a residual is refused, as below
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
    // The shift beta - mean * scale cancels the part that a center far from zero adds.
    expect_pytorch(values_["evaluated"], y, tolerance_);
    expect_zero_padding(y);
    EXPECT_EQ(values_of(in.running_mean), before);
  }
}

TEST_P(BatchNorm, Backward) {
  for (const Layout layout : GetParam().row.image_layouts) {
    // Residual and gradient may have another layout than x.
    for (const Layout other : {layout, Layout::plain}) {
      SCOPED_TRACE(std::string(layout_name(layout)) + ", others " + std::string(layout_name(other)));
      const ops::BatchNormInputs in = inputs(layout, other);
      const ops::BatchNormTraining forward = ops::batch_norm_training(in, options_);
      const Tensor incoming = formula_tensor(*device_, in.x.shape(), {.tensor = kOutputGradient}, other);
      const auto sinks = ops::BatchNormSinks::of(in);
      const ops::BatchNormGradients gradients = ops::batch_norm_backward(in, forward, incoming, sinks, options_);
      expect_pytorch(values_["dx"], gradients.x, 2 * tolerance_);
      expect_pytorch(values_["dgamma"], sinks.gamma, 2 * tolerance_);
      expect_pytorch(values_["dbeta"], sinks.beta, tolerance_);
      EXPECT_EQ(values_of(incoming),
                values_of(formula_tensor(*device_, in.x.shape(), {.tensor = kOutputGradient}, other)))
          << "a gradient that others hold stays what it was";
      expect_zero_padding(gradients.x);
      EXPECT_EQ(gradients.residual.defined(), in.residual.defined());
      if (!in.residual.defined()) continue;
      expect_pytorch(values_["dresidual"], gradients.residual, tolerance_);
      expect_zero_padding(gradients.residual);
    }
  }
}

/// Two readers of the output return gradients, in layouts of their own.
TEST_P(BatchNorm, BackwardOfTwoGradientsIsThatOfTheirSum) {
  for (const Layout layout : GetParam().row.image_layouts) {
    SCOPED_TRACE(layout_name(layout));
    const ops::BatchNormInputs in = inputs(layout, layout);
    const ops::BatchNormTraining forward = ops::batch_norm_training(in, options_);
    const auto gradient = [&](uint64_t tensor, Layout its) {
      return formula_tensor(*device_, in.x.shape(), {.tensor = tensor}, its);
    };
    const auto of_two = ops::BatchNormSinks::of(in), of_sum = ops::BatchNormSinks::of(in);
    const auto two = ops::batch_norm_backward(
        in, forward, {gradient(kOutputGradient, layout), gradient(90, Layout::plain)}, of_two, options_);
    const Tensor sum = ops::add(gradient(kOutputGradient, layout), gradient(90, layout));
    const auto one = ops::batch_norm_backward(in, forward, sum, of_sum, options_);
    EXPECT_EQ(values_of(two.x), values_of(one.x));
    EXPECT_EQ(values_of(of_two.gamma), values_of(of_sum.gamma));
    EXPECT_EQ(values_of(of_two.beta), values_of(of_sum.beta));
    EXPECT_EQ(two.residual.defined(), in.residual.defined());
    if (in.residual.defined()) {
      EXPECT_EQ(values_of(two.residual), values_of(one.residual));
    }
    expect_zero_padding(two.x);
  }
}

TEST_P(BatchNorm, BackwardAddsToWhatStandsInItsSinks) {
  const Layout layout = GetParam().row.image_layouts.front();
  const ops::BatchNormInputs in = inputs(layout, layout);
  const ops::BatchNormTraining forward = ops::batch_norm_training(in, options_);
  const Tensor incoming = formula_tensor(*device_, in.x.shape(), {.tensor = kOutputGradient}, layout);
  ops::BatchNormSinks sinks = ops::BatchNormSinks::of(in);
  ops::batch_norm_backward(in, forward, incoming, sinks, options_);
  const std::vector<float> gamma = values_of(sinks.gamma), beta = values_of(sinks.beta);
  sinks.accumulate_gamma = true;
  ops::batch_norm_backward(in, forward, incoming, sinks, options_);
  EXPECT_EQ(values_of(sinks.beta), beta);
  for (size_t c = 0; c < gamma.size(); ++c) EXPECT_EQ(values_of(sinks.gamma)[c], 2 * gamma[c]);
  sinks.accumulate_beta = true;
  ops::batch_norm_backward(in, forward, incoming, sinks, options_);
  for (size_t c = 0; c < beta.size(); ++c) EXPECT_EQ(values_of(sinks.beta)[c], 2 * beta[c]);
}

TEST_P(BatchNorm, BackwardAddsToASum) {
  const Layout layout = GetParam().row.image_layouts.front();
  const ops::BatchNormInputs in = inputs(layout, layout);
  const ops::BatchNormTraining forward = ops::batch_norm_training(in, options_);
  const Tensor incoming = formula_tensor(*device_, in.x.shape(), {.tensor = kOutputGradient}, layout);
  ops::BatchNormSinks sinks = ops::BatchNormSinks::of(in);
  const Tensor alone = ops::batch_norm_backward(in, forward, incoming, sinks, options_).x;
  for (const Layout of_sum : GetParam().row.image_layouts) {
    SCOPED_TRACE(layout_name(of_sum));
    const auto sum = [&] { return formula_tensor(*device_, in.x.shape(), {.tensor = 90}, of_sum); };
    sinks.x = sum();
    const Tensor added = ops::batch_norm_backward(in, forward, incoming, sinks, options_).x;
    EXPECT_EQ(added.raw(), sinks.x.raw());
    EXPECT_EQ(values_of(added), values_of(ops::add(sum(), ops::reorder(alone, of_sum))));
    expect_zero_padding(added);
  }
}

INSTANTIATE_TEST_SUITE_P(PyTorch, BatchNorm, ::testing::ValuesIn(pytorch_cases("batch_norm")), CaseName());

class BatchNormWidths : public ::testing::TestWithParam<DeviceRow> {
 protected:
  std::unique_ptr<Device> device_ = GetParam().open(), cpu_ = test_device();
};

/// In nhwc, packs of 16 bytes begin and end in the middle of a pixel where a pixel doesn't fill packs, and so do a CPU
/// worker's blocks of 16 and 8 channels. Plain images are computed one channel at a time.
TEST_P(BatchNormWidths, OfAnyChannelsAreThoseOfPlainImagesOnACpuWorker) {
  struct Case {
    int64_t channels, side, residual;
    DType dtype;
    bool relu, second, sum;
  };
  struct Width {
    int64_t channels, side,
        fewer;  ///< `fewer` of a residual: in whole packs, across them, next to none and all but one
  };
  std::vector<Case> cases;
  for (const auto& [channels, side, fewer] : std::vector<Width>{{1, 4, 1},
                                                                {3, 8, 2},
                                                                {21, 4, 17},
                                                                {22, 3, 1},
                                                                {24, 3, 16},
                                                                {24, 3, 18},
                                                                {286, 2, 280},
                                                                {32, 2, 31},
                                                                {11, 3, 9},
                                                                {19, 3, 5}})
    for (const DType dtype : {DType::f32, DType::bf16})
      for (const int64_t residual : {int64_t{0}, fewer, channels})
        for (const bool relu : {false, true})
          for (const bool second : {false, true})
            cases.push_back({channels, side, residual, dtype, relu, second, second});
  for (const Case& c : cases) {
    SCOPED_TRACE(::testing::Message() << c.channels << " channels, " << c.side << ", " << dtype_name(c.dtype)
                                      << ", residual of " << c.residual << (c.relu ? ", relu" : "")
                                      << (c.second ? ", second gradient, sum" : ""));
    std::vector<std::vector<float>> results[2];
    for (Device* on : {device_.get(), cpu_.get()}) {
      const Shape shape = {8, c.channels, c.side, c.side}, parameter = {c.channels};
      const auto images_of = [&](int64_t channels, const Formula& values) {
        return ops::converted(formula_tensor(*on, {shape[0], channels, shape[2], shape[3]}, values),
                              {.dtype = c.dtype, .layout = on == cpu_.get() ? Layout::plain : Layout::nhwc});
      };
      const auto images = [&](const Formula& values) { return images_of(c.channels, values); };
      const auto numbers = [&](const Formula& values) { return formula_tensor(*on, parameter, values); };
      const ops::BatchNormInputs in{.x = images({.tensor = 0, .centre = 2}),
                                    .gamma = numbers({.tensor = 1, .centre = 1}),
                                    .beta = numbers({.tensor = 2}),
                                    .running_mean = numbers({.tensor = 3}),
                                    .running_variance = numbers({.tensor = 4, .centre = 2}),
                                    .residual = c.residual > 0 ? images_of(c.residual, {.tensor = 5}) : Tensor()};
      const auto forward = ops::batch_norm_training(in, {.relu = c.relu});
      auto sinks = ops::BatchNormSinks::of(in);
      if (c.sum) sinks.x = images({.tensor = 8});
      const auto gradients = ops::batch_norm_backward(
          in, forward, {images({.tensor = 6}), c.second ? images({.tensor = 7}) : Tensor()}, sinks, {.relu = c.relu});
      for (const Tensor& tensor : {forward.y, forward.mean, in.running_mean, in.running_variance, gradients.x,
                                   sinks.gamma, sinks.beta, c.residual > 0 ? gradients.residual : gradients.x})
        results[on == cpu_.get()].push_back(ops::converted(tensor, {.dtype = DType::f32}).values());
    }
    // With the 8 bits of bf16, sums differ, and so does where a ReLU cuts.
    const double bound = c.dtype == DType::f32 ? 2e-5 : 2e-2;
    for (size_t r = 0; r < results[0].size(); ++r) {
      size_t apart = 0;
      for (size_t i = 0; i < results[0][r].size(); ++i)
        apart += std::abs(results[0][r][i] - results[1][r][i]) > bound * (1 + std::abs(results[1][r][i])) ? 1 : 0;
      EXPECT_LE(apart, c.dtype == DType::f32 ? 0 : results[0][r].size() / 100) << "result " << r;
    }
  }
}

TEST_P(BatchNormWidths, BackwardAddsTheFirstChannelsOfAWiderGradient) {
  struct Case {
    int64_t channels, wider;
    DType dtype;
  };
  std::vector<Case> cases;
  for (const auto& [channels, wider] :
       std::vector<std::pair<int64_t, int64_t>>{{20, 21}, {16, 32}, {17, 21}, {21, 23}, {24, 28}, {1, 2}, {5, 5}})
    for (const DType dtype : {DType::f32, DType::bf16}) cases.push_back({channels, wider, dtype});
  for (const Case& c : cases)
    for (const Layout layout : GetParam().image_layouts)
      for (const Layout of_wider : {layout, Layout::plain}) {
        SCOPED_TRACE(::testing::Message() << c.channels << " of " << c.wider << ", " << dtype_name(c.dtype) << ", "
                                          << layout_name(layout) << ", " << layout_name(of_wider));
        const auto images = [&](int64_t channels, uint64_t tensor, Layout its) {
          return ops::converted(formula_tensor(*device_, {8, channels, 2, 3}, {.tensor = tensor}),
                                {.dtype = c.dtype, .layout = its});
        };
        const auto numbers = [&](const Formula& values) { return formula_tensor(*device_, {c.channels}, values); };
        const ops::BatchNormInputs in{.x = images(c.channels, 0, layout),
                                      .gamma = numbers({.tensor = 1, .centre = 1}),
                                      .beta = numbers({.tensor = 2}),
                                      .running_mean = numbers({.tensor = 3}),
                                      .running_variance = numbers({.tensor = 4, .centre = 2}),
                                      .residual = {}};
        const auto forward = ops::batch_norm_training(in, {.relu = true});
        const Tensor incoming = images(c.channels, 6, layout), wider = images(c.wider, 7, of_wider);
        auto sinks = ops::BatchNormSinks::of(in);
        const Tensor alone = ops::batch_norm_backward(in, forward, incoming, sinks, {.relu = true}).x;
        sinks.wider = wider;
        const Tensor added = ops::batch_norm_backward(in, forward, incoming, sinks, {.relu = true}).x;
        const Tensor first = ops::reorder(ops::first_channels(wider, in.x.shape()), layout);
        const auto numbers_in = [](const Tensor& tensor) {
          return ops::converted(tensor, {.dtype = DType::f32}).values();
        };
        EXPECT_EQ(numbers_in(added), numbers_in(ops::add(alone, first)));
        EXPECT_EQ(numbers_in(wider), numbers_in(images(c.wider, 7, of_wider)));
        EXPECT_EQ(added.layout(), layout);
        if (c.dtype == DType::f32) expect_zero_padding(added);
      }
}

/// Equal to separate passes, in blocks of channels that end within the residual's channels and with them.
TEST_P(BatchNormWidths, AResidualOfFewerChannelsIsAddedToTheFirst) {
  for (const auto& [channels, fewer] : std::vector<std::pair<int64_t, int64_t>>{{40, 20}, {32, 16}, {21, 17}, {5, 2}})
    for (const Layout layout : GetParam().image_layouts)
      for (const Layout of_residual : {layout, Layout::plain})
        for (const bool relu : {false, true}) {
          SCOPED_TRACE(::testing::Message() << fewer << " of " << channels << ", " << layout_name(layout) << ", "
                                            << layout_name(of_residual) << (relu ? ", relu" : ""));
          const auto numbers = [&](const Formula& values) { return formula_tensor(*device_, {channels}, values); };
          ops::BatchNormInputs in{.x = formula_tensor(*device_, {2, channels, 3, 5}, {.tensor = 0}, layout),
                                  .gamma = numbers({.tensor = 1, .centre = 1}),
                                  .beta = numbers({.tensor = 2}),
                                  .running_mean = numbers({.tensor = 3}),
                                  .running_variance = numbers({.tensor = 4, .centre = 2}),
                                  .residual = {}};
          const Tensor residual = formula_tensor(*device_, {2, fewer, 3, 5}, {.tensor = 5}, of_residual);
          std::vector<float> expected = values_of(ops::add_padded(ops::batch_norm_evaluation(in, {}), residual));
          for (float& value : expected) value = relu ? std::max(0.f, value) : value;
          in.residual = residual;
          const Tensor y = ops::batch_norm_evaluation(in, {.relu = relu});
          EXPECT_EQ(values_of(y), expected);
          expect_zero_padding(y);
        }
}

INSTANTIATE_TEST_SUITE_P(Devices, BatchNormWidths, ::testing::ValuesIn(device_rows()), RowName());

/// A plan counts what a GPU holds: the gradient before the ReLU needs its own memory if other gradients share the
/// incoming one.
TEST(PlannedBatchNorm, TakesMemoryForAMaskedGradientThatIsShared) {
  const auto device = open_device({DeviceKind::cuda, 0}, {.counts_only = true});
  const auto images = [&] { return Tensor::zeros(*device, {4, 8, 16, 16}, {.layout = Layout::nhwc}); };
  const auto numbers = [&] { return Tensor::zeros(*device, {8}); };
  const ops::BatchNormInputs in{.x = images(),
                                .gamma = numbers(),
                                .beta = numbers(),
                                .running_mean = numbers(),
                                .running_variance = numbers(),
                                .residual = images()};
  const auto sinks = ops::BatchNormSinks::of(in);
  const auto images_taken = [&](bool relu, bool is_shared) {
    const auto forward = ops::batch_norm_training(in, {.relu = relu});
    ops::SummedGradient gradient(images());
    const Tensor held = is_shared ? gradient.first : Tensor();
    const int64_t before = device->allocator().in_use().total_bytes();
    const auto gradients = ops::batch_norm_backward(in, forward, std::move(gradient), sinks, {.relu = relu});
    return (device->allocator().in_use().total_bytes() - before) / in.x.bytes();
  };
  EXPECT_EQ(images_taken(true, false), 1) << "x's, and the residual's over what came";
  EXPECT_EQ(images_taken(true, true), 2);
  EXPECT_EQ(images_taken(false, true), 1) << "without a ReLU the residual's is what came";
}

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
  in.residual = zeros({2, 4, 4, 4});
  expect_error(ExitCode::bug, {"batch_norm", "residual", "[2, 4, 4, 4]", "[2, 3, 4, 4]"},
               [&] { ops::batch_norm_training(in, {}); });
  in.residual = zeros({2, 3, 4, 4});
  expect_error(ExitCode::bug, {"batch_norm again", "residual"},
               [&] { ops::batch_norm_again(in, ops::batch_norm_by_running(in, {}), {}); });
  in.residual = {};
  const ops::BatchNormTraining forward = ops::batch_norm_training(in, {});
  expect_error(ExitCode::bug, {"batch_norm backward", "output gradient"}, [&] {
    ops::batch_norm_backward(in, forward, zeros({2, 3, 4, 3}), ops::BatchNormSinks::of(in), {});
  });
  expect_error(ExitCode::bug, {"batch_norm backward", "output gradient", "[2, 3, 3, 4]"}, [&] {
    ops::batch_norm_backward(in, forward, {zeros({2, 3, 4, 4}), zeros({2, 3, 3, 4})}, ops::BatchNormSinks::of(in), {});
  });
  expect_error(ExitCode::bug, {"batch_norm backward", "a parameter's gradient", "[4]", "[3]"}, [&] {
    ops::batch_norm_backward(in, forward, zeros({2, 3, 4, 4}), {.gamma = zeros({3}), .beta = zeros({4})}, {});
  });
}

}  // namespace batch_norm_test
}  // namespace dptrain
