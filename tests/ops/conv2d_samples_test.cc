// Convolutions with one sample per lane against oneDNN's: shapes whose channels don't fill vectors, and few and many
// samples. A sample has the same bits whatever else is in its call.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "device/cpu_isa.h"
#include "ops/conv2d.h"
#include "ops/reorder.h"
#include "support/formula_tensor.h"
#include "support/test_device.h"

namespace dptrain {
namespace conv2d_samples_test {

using namespace testing;
using ops::ConvolutionAlgorithm;

struct Convolution {
  int64_t samples, channels, outputs, height, width, window_height, window_width, padding;
};

void PrintTo(const Convolution& c, std::ostream* out) {
  *out << fmt::format("{} of {}x{}x{} to {}, {}x{} padded by {}", c.samples, c.channels, c.height, c.width, c.outputs,
                      c.window_height, c.window_width, c.padding);
}

class BySamples : public ::testing::TestWithParam<Convolution> {
 protected:
  void SetUp() override {
    if (cpu_isa() == CpuIsa::baseline) GTEST_SKIP() << "no AVX2: oneDNN convolves here";
  }
  static ops::Conv2dOptions with(ConvolutionAlgorithm algorithm) {
    return {.padding = GetParam().padding, .algorithm = algorithm};
  }
  static void expect_alike(const Tensor& by_samples, const Tensor& direct) {
    const std::vector<float> a = values_of(by_samples), b = values_of(direct);
    ASSERT_EQ(a.size(), b.size());
    double distance = 0, norm = 0;
    for (size_t i = 0; i < b.size(); ++i) {
      distance += (double{a[i]} - b[i]) * (double{a[i]} - b[i]);
      norm += double{b[i]} * b[i];
    }
    EXPECT_GT(norm, 0);
    EXPECT_LE(std::sqrt(distance), 1e-5 * std::sqrt(norm));
  }
  static Shape output() {
    const Convolution& c = GetParam();
    return {c.samples, c.outputs, c.height + 2 * c.padding - c.window_height + 1,
            c.width + 2 * c.padding - c.window_width + 1};
  }
  Layout images() const { return ops::conv2d_output_layout(*device_, kWeight); }

  std::unique_ptr<Device> device_ = test_device(2);
  const Shape kX = {GetParam().samples, GetParam().channels, GetParam().height, GetParam().width};
  const Shape kWeight = {GetParam().outputs, GetParam().channels, GetParam().window_height, GetParam().window_width};
  Tensor x_ = formula_tensor(*device_, kX, {.tensor = 1}, images());
  Tensor weight_ = formula_tensor(*device_, kWeight, {.tensor = 2});
  Tensor bias_ = formula_tensor(*device_, {kWeight[0]}, {.tensor = 3});
  Tensor incoming_ = formula_tensor(*device_, output(), {.tensor = 4}, images());
};

TEST_P(BySamples, Forward) {
  ASSERT_EQ(images(), Layout::nhwc);
  for (const bool relu : {false, true})
    for (const Tensor& bias : {bias_, Tensor()}) {
      const auto y = [&](ConvolutionAlgorithm algorithm) {
        ops::Conv2dOptions options = with(algorithm);
        options.relu = relu;
        return ops::conv2d_forward(x_, weight_, bias, options);
      };
      expect_alike(y(ConvolutionAlgorithm::automatic), y(ConvolutionAlgorithm::direct));
    }
}

TEST_P(BySamples, BackwardData) {
  const auto gradient = [&](ConvolutionAlgorithm algorithm) {
    return ops::conv2d_backward_data(x_, weight_, incoming_, with(algorithm));
  };
  expect_alike(gradient(ConvolutionAlgorithm::automatic), gradient(ConvolutionAlgorithm::direct));
}

TEST_P(BySamples, BackwardWeights) {
  for (const bool accumulate : {false, true}) {
    const auto gradients = [&](ConvolutionAlgorithm algorithm) {
      ops::Conv2dWeightGradients sums{.weight = formula_tensor(*device_, kWeight, {.tensor = 5}),
                                      .bias = formula_tensor(*device_, {kWeight[0]}, {.tensor = 6}),
                                      .accumulate_weight = accumulate,
                                      .accumulate_bias = accumulate};
      ops::conv2d_backward_weights(x_, incoming_, sums, with(algorithm));
      return sums;
    };
    const ops::Conv2dWeightGradients own = gradients(ConvolutionAlgorithm::automatic),
                                     direct = gradients(ConvolutionAlgorithm::direct);
    expect_alike(own.weight, direct.weight);
    expect_alike(own.bias, direct.bias);
  }
}

/// The last sample alone, in a vector of its own, equals the same sample in the batch.
TEST_P(BySamples, ASamplesBitsAreItsOwn) {
  const auto last_of = [](const Tensor& images) {
    const std::vector<float> values = values_of(images);
    return std::vector<float>(values.end() - images.elements() / images.shape()[0], values.end());
  };
  const auto alone = [&](const Tensor& images) {
    return tensor_of(*device_, images.shape().with_first(1), last_of(images), images.layout());
  };
  const ops::Conv2dOptions options = with(ConvolutionAlgorithm::automatic);
  EXPECT_EQ(last_of(ops::conv2d_forward(x_, weight_, bias_, options)),
            values_of(ops::conv2d_forward(alone(x_), weight_, bias_, options)));
  EXPECT_EQ(last_of(ops::conv2d_backward_data(x_, weight_, incoming_, options)),
            values_of(ops::conv2d_backward_data(alone(x_), weight_, alone(incoming_), options)));
}

/// A NaN of one sample doesn't reach the samples in the other lanes of its vectors.
TEST_P(BySamples, ANanStaysInItsSample) {
  if (kX[0] < 2) GTEST_SKIP() << "one sample";
  std::vector<float> values = values_of(x_);
  const int64_t of_sample = x_.elements() / kX[0];
  for (int64_t i = 0; i < of_sample; ++i) values[static_cast<size_t>(i)] = std::numeric_limits<float>::quiet_NaN();
  const Tensor spoiled = tensor_of(*device_, kX, values, x_.layout());
  const ops::Conv2dOptions options = with(ConvolutionAlgorithm::automatic);
  const std::vector<float> y = values_of(ops::conv2d_forward(spoiled, weight_, bias_, options)),
                           clean = values_of(ops::conv2d_forward(x_, weight_, bias_, options));
  const size_t of_y = y.size() / static_cast<size_t>(kX[0]);
  EXPECT_TRUE(std::isnan(y[0]));
  EXPECT_EQ(std::vector<float>(y.begin() + static_cast<int64_t>(of_y), y.end()),
            std::vector<float>(clean.begin() + static_cast<int64_t>(of_y), clean.end()));
}

// LeNet's second convolution, with samples that fill two vectors, three and a part, and one lane. Then windows that
// aren't square, padding wider than half of them, images as large as a window, and window rows shorter than a vector.
INSTANTIATE_TEST_SUITE_P(
    Shapes, BySamples,
    ::testing::Values(Convolution{64, 20, 50, 12, 12, 5, 5, 0}, Convolution{37, 20, 50, 12, 12, 5, 5, 0},
                      Convolution{1, 20, 50, 12, 12, 5, 5, 0}, Convolution{5, 6, 10, 9, 7, 2, 3, 1},
                      Convolution{18, 7, 13, 4, 5, 3, 3, 2}, Convolution{3, 20, 17, 5, 5, 5, 5, 0},
                      Convolution{33, 1, 20, 28, 28, 5, 5, 0}, Convolution{20, 3, 10, 8, 9, 3, 3, 1}));

}  // namespace conv2d_samples_test
}  // namespace dptrain
