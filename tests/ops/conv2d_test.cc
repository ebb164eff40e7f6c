// Convolutions against PyTorch: every algorithm, layout of input and weights, fused ReLU, and gradients that are
// written or added.

#include "ops/conv2d.h"

#include <time.h>

#include <algorithm>

#include "device/cpu_isa.h"
#include "ops/pytorch_cases.h"
#include "support/expect_error.h"
#include "support/test_device.h"

namespace dptrain {
namespace conv2d_test {

using namespace testing;
using ops::ConvolutionAlgorithm;

class Conv2d : public ::testing::TestWithParam<PyTorchCase> {
 protected:
  /// Calls `check` with the case's options for each algorithm.
  template <class Check>
  void for_each_algorithm(const Check& check) const {
    for (const auto& [algorithm, name] :
         {std::pair(ConvolutionAlgorithm::direct, "direct"), std::pair(ConvolutionAlgorithm::automatic, "automatic"),
          std::pair(ConvolutionAlgorithm::winograd, "winograd")}) {
      SCOPED_TRACE(name);
      check(ops::Conv2dOptions{.stride = values_["stride"], .padding = values_["padding"], .algorithm = algorithm});
    }
  }

  std::vector<Layout> weight_layouts() const {
    const Layout best = ops::conv2d_weight_layout(*device_, weight_shape_);
    return best == Layout::plain ? std::vector{best} : std::vector{Layout::plain, best};
  }
  Tensor weight(Layout layout) const { return formula_tensor(*device_, weight_shape_, {.tensor = kWeight}, layout); }
  Tensor bias() const {
    return values_["bias"] ? formula_tensor(*device_, {weight_shape_[0]}, {.tensor = kBias}) : Tensor();
  }
  Tensor x(Layout layout) const { return formula_tensor(*device_, x_shape_, {.tensor = kX}, layout); }
  Tensor output_gradient(const ops::Conv2dOptions& options) const {
    const Tensor y = ops::conv2d_forward(x(Layout::plain), weight(Layout::plain), bias(), options);
    return formula_tensor(*device_, y.shape(), {.tensor = kOutputGradient});
  }

  const nlohmann::json& values_ = GetParam().values;
  Shape x_shape_ = GetParam().shape("x"), weight_shape_ = GetParam().shape("weight");
  std::unique_ptr<Device> device_ = GetParam().row.open();
  /// Winograd's transforms of F(4x4, 3x3) lose a digit.
  double tolerance_ = 3 * GetParam().row.tolerance;
};

TEST_P(Conv2d, Forward) {
  for_each_algorithm([&](ops::Conv2dOptions options) {
    for (const Layout layout : GetParam().row.image_layouts) {
      for (const Layout weights : weight_layouts()) {
        SCOPED_TRACE(std::string(layout_name(layout)) + ", weights " + std::string(layout_name(weights)));
        options.relu = false;
        const Tensor y = ops::conv2d_forward(x(layout), weight(weights), bias(), options);
        EXPECT_EQ(y.layout(), ops::conv2d_output_layout(*device_, weight_shape_));
        expect_pytorch(values_["y"], y, tolerance_);
        expect_zero_padding(y);
        options.relu = true;
        const Tensor positive = ops::conv2d_forward(x(layout), weight(weights), bias(), options);
        expect_pytorch(values_["y_relu"], positive, tolerance_);
        expect_zero_padding(positive);
      }
    }
  });
}

TEST_P(Conv2d, BackwardData) {
  for_each_algorithm([&](const ops::Conv2dOptions& options) {
    const Tensor incoming = output_gradient(options);
    for (const Layout layout : GetParam().row.image_layouts) {
      for (const Layout weights : weight_layouts()) {
        SCOPED_TRACE(std::string(layout_name(layout)) + ", weights " + std::string(layout_name(weights)));
        const Tensor gradient =
            ops::conv2d_backward_data(x(layout), weight(weights), ops::reorder(incoming, layout), options);
        EXPECT_EQ(gradient.layout(), layout);
        expect_pytorch(values_["dx"], gradient, tolerance_);
        expect_zero_padding(gradient);
      }
    }
  });
}

TEST_P(Conv2d, BackwardWeights) {
  for_each_algorithm([&](const ops::Conv2dOptions& options) {
    const Tensor incoming = output_gradient(options);
    for (const Layout layout : GetParam().row.image_layouts) {
      for (const Layout weights : weight_layouts()) {
        SCOPED_TRACE(std::string(layout_name(layout)) + ", weights " + std::string(layout_name(weights)));
        const Tensor gradient =
            tensor_of(*device_, weight_shape_, std::vector<float>(weight_shape_.elements(), 7.f), weights);
        const Tensor of_bias = values_["bias"]
                                   ? tensor_of(*device_, {weight_shape_[0]}, std::vector<float>(weight_shape_[0], 7.f))
                                   : Tensor();
        ops::conv2d_backward_weights(x(layout), ops::reorder(incoming, layout), {.weight = gradient, .bias = of_bias},
                                     options);
        expect_pytorch(values_["dweight"], gradient, tolerance_);
        if (of_bias.defined()) expect_pytorch(values_["dbias"], of_bias, tolerance_);
      }
    }
  });
}

TEST_P(Conv2d, BackwardWeightsAddsToWhatIsThere) {
  for_each_algorithm([&](const ops::Conv2dOptions& options) {
    const Tensor incoming = output_gradient(options);
    for (const Layout weights : weight_layouts()) {
      const ops::Conv2dWeightGradients sums{
          .weight = tensor_of(*device_, weight_shape_, std::vector<float>(weight_shape_.elements(), 2.f), weights),
          .bias = values_["bias"] ? tensor_of(*device_, {weight_shape_[0]}, std::vector<float>(weight_shape_[0], 3.f))
                                  : Tensor(),
          .accumulate_weight = true,
          .accumulate_bias = true};
      ops::conv2d_backward_weights(x(Layout::nhwc), incoming, sums, options);
      const auto without = [](const Tensor& tensor, float start) {
        std::vector<float> values = values_of(tensor);
        for (float& value : values) value -= start;
        return tensor_of(tensor.device(), tensor.shape(), values);
      };
      expect_pytorch(values_["dweight"], without(sums.weight, 2), tolerance_);
      if (sums.bias.defined()) expect_pytorch(values_["dbias"], without(sums.bias, 3), tolerance_);
    }
  });
}

INSTANTIATE_TEST_SUITE_P(PyTorch, Conv2d, ::testing::ValuesIn(pytorch_cases("conv2d")), CaseName());

TEST(Conv2dRefuses, WhatDoesNotFit) {
  const auto device = test_device();
  const auto zeros = [&](const Shape& shape) { return Tensor::zeros(*device, shape); };
  expect_error(ExitCode::bug, {"conv2d", "[1, 2, 5, 5]", "[4, 3, 3, 3]"}, [&] {
    ops::conv2d_forward(zeros({1, 2, 5, 5}), zeros({4, 3, 3, 3}), {}, {});
  });
  expect_error(ExitCode::bug, {"conv2d", "bias", "[5]", "[4]"}, [&] {
    ops::conv2d_forward(zeros({1, 3, 5, 5}), zeros({4, 3, 3, 3}), zeros({5}), {});
  });
  for (const int64_t stride : {1, 2, 4})
    expect_error(ExitCode::bug, {"[1, 3, 2, 5]", "smaller than weight [4, 3, 3, 3]"}, [&] {
      ops::conv2d_forward(zeros({1, 3, 2, 5}), zeros({4, 3, 3, 3}), {}, {.stride = stride});
    });
  expect_error(ExitCode::bug, {"conv2d backward", "output gradient"}, [&] {
    ops::conv2d_backward_data(zeros({1, 3, 5, 5}), zeros({4, 3, 3, 3}), zeros({1, 4, 4, 3}), {});
  });
}

TEST(Conv2dLayouts, AvoidWastedLanes) {
  const auto device = test_device();
  // Blocked layouts where channels fill blocks of either width; images of up to three channels feed blocks directly.
  for (const auto& [in, out] : {std::pair(16, 16), std::pair(64, 64), std::pair(1, 16), std::pair(3, 64)})
    for (const int64_t window : {1, 3, 5})
      EXPECT_GT(layout_block(ops::conv2d_output_layout(*device, {out, in, window, window})), 1) << in << " to " << out;
  // 11 of 16 lanes would be empty, or 3 and more of 8.
  for (const int64_t window : {1, 3, 5}) {
    EXPECT_EQ(ops::conv2d_output_layout(*device, {5, 16, window, window}), Layout::nhwc);
    EXPECT_EQ(ops::conv2d_output_layout(*device, {16, 5, window, window}), Layout::nhwc);
  }
  // 12 lanes of two blocks of 16 would be empty, or 4 of three blocks of 8; Winograd's windows fill the latter.
  EXPECT_EQ(ops::conv2d_output_layout(*device, {20, 20, 5, 5}), Layout::nhwc);
  EXPECT_EQ(ops::conv2d_output_layout(*device, {20, 20, 3, 3}),
            cpu_isa() == CpuIsa::avx512 ? Layout::nhwc : Layout::nchw8c);
  EXPECT_EQ(ops::conv2d_weight_layout(*device, {16, 5, 3, 3}), Layout::plain);
  EXPECT_GT(layout_block(ops::conv2d_weight_layout(*device, {64, 64, 3, 3})), 1);
}

double seconds_of_this_thread() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

/// The library has kernels for some layouts only, and scalar loops for others. Without AVX-512 the weights' gradient of
/// gray images then took 50 times as long as the forward pass.
TEST(Conv2dOfFewChannels, GradientOfTheWeightsTakesNoScalarLoops) {
  // Measures one thread's own time: two threads would wait for each other if other tests use the cores.
  const auto device = test_device(/*threads=*/1);
  for (const int64_t channels : {1, 2, 3}) {
    const Tensor x = formula_tensor(*device, {16, channels, 28, 28}, {.tensor = kX}),
                 weight = formula_tensor(*device, {20, channels, 5, 5}, {.tensor = kWeight});
    const ops::Conv2dOptions direct{.algorithm = ConvolutionAlgorithm::direct};
    const Tensor y = ops::conv2d_forward(x, weight, Tensor(), direct);
    const Tensor gradient = Tensor::empty(*device, weight.shape());
    const auto shortest = [](const auto& call) {
      call();  // makes the primitive
      double seconds = 1e9;
      for (int run = 0; run < 5; ++run) {
        const double begun = seconds_of_this_thread();
        call();
        seconds = std::min(seconds, seconds_of_this_thread() - begun);
      }
      return seconds;
    };
    const double forward = shortest([&] { ops::conv2d_forward(x, weight, Tensor(), direct); });
    const double backward =
        shortest([&] { ops::conv2d_backward_weights(x, y, {.weight = gradient, .bias = {}}, direct); });
    EXPECT_LT(backward, 20 * forward) << channels;
  }
}

}  // namespace conv2d_test
}  // namespace dptrain
