// Convolutions of bf16 on a CPU worker, by the matrix unit where the machine has one, against sums of the same operands
// in double. ctest runs this again without the unit.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "device/cpu_bf16.h"
#include "ops/conv2d.h"
#include "ops/reorder.h"
#include "support/formula_tensor.h"
#include "support/test_device.h"

namespace dptrain {
namespace conv2d_bf16_test {

using namespace testing;

struct Convolution {
  Shape x, weight;
  int64_t stride = 1, padding = 0;

  Shape y() const {
    const auto size = [&](int axis) { return (x[axis] + 2 * padding - weight[axis]) / stride + 1; };
    return {x[0], weight[0], size(2), size(3)};
  }
  friend std::ostream& operator<<(std::ostream& out, const Convolution& c) {
    return out << "x " << c.x.text() << ", weight " << c.weight.text() << ", stride " << c.stride << ", padding "
               << c.padding;
  }
};

/// Right values, and for each the sum of its terms' magnitudes, which the rounding of sums in f32 is relative to.
struct Sums {
  explicit Sums(int64_t count) : values(static_cast<size_t>(count)), magnitudes(static_cast<size_t>(count)) {}
  void add(size_t at, double term) {
    values[at] += term;
    magnitudes[at] += std::abs(term);
  }
  std::vector<double> values, magnitudes;
};

class Conv2dBf16 : public ::testing::TestWithParam<Convolution> {
 protected:
  /// Half a unit in the last of 8 places, and the error of sums of about a thousand terms in f32.
  static constexpr double kRounding = 0x1p-8, kSums = 0x1p-19;

  Tensor tensor(const Shape& shape, uint64_t number, Layout layout) const {
    return ops::converted(formula_tensor(*device_, shape, {.tensor = number}),
                          {.dtype = DType::bf16, .layout = layout});
  }
  static std::vector<float> numbers(const Tensor& tensor) {
    return ops::converted(tensor, {.dtype = DType::f32}).values();
  }
  std::vector<Layout> image_layouts() const { return {ops::conv2d_output_layout(*device_, c_.weight), Layout::plain}; }
  Layout weight_layout() const { return ops::conv2d_weight_layout(*device_, c_.weight); }
  Tensor x(Layout layout) const { return tensor(c_.x, 1, layout); }
  Tensor weight() const { return tensor(c_.weight, 2, weight_layout()); }
  Tensor bias() const { return tensor({c_.weight[0]}, 3, Layout::plain); }
  Tensor incoming(Layout layout) const { return tensor(c_.y(), 4, layout); }

  /// Calls body(x, weight, y) with the offsets of all pairs that are multiplied, and of their output.
  template <class Body>
  void for_each_term(const Body& body) const {
    const Shape &x = c_.x, &w = c_.weight, y = c_.y();
    const auto at = [](const Shape& shape, int64_t a, int64_t b, int64_t i, int64_t j) {
      return static_cast<size_t>(((a * shape[1] + b) * shape[2] + i) * shape[3] + j);
    };
    for (int64_t n = 0; n < y[0]; ++n)
      for (int64_t o = 0; o < y[1]; ++o)
        for (int64_t i = 0; i < y[2]; ++i)
          for (int64_t j = 0; j < y[3]; ++j)
            for (int64_t c = 0; c < x[1]; ++c)
              for (int64_t u = 0; u < w[2]; ++u)
                for (int64_t v = 0; v < w[3]; ++v) {
                  const int64_t row = i * c_.stride + u - c_.padding, column = j * c_.stride + v - c_.padding;
                  if (row < 0 || row >= x[2] || column < 0 || column >= x[3]) continue;
                  body(at(x, n, c, row, column), at(w, o, c, u, v), at(y, n, o, i, j));
                }
  }

  static void expect_near(const Tensor& got, const Sums& right, double rounding, bool relu = false) {
    // Elements of the storage beyond the tensor are zero in any layout.
    const Tensor stored = ops::converted(got, {.dtype = DType::f32, .layout = got.layout()});
    const Tensor plain = ops::reorder(stored, Layout::plain);
    EXPECT_EQ(stored_values(stored), stored_values(ops::reorder(plain, got.layout())));
    const std::vector<float> values = numbers(got);
    ASSERT_EQ(values.size(), right.values.size());
    size_t wrong = 0, first = 0;
    const auto expected = [&](size_t i) { return relu ? std::max(0., right.values[i]) : right.values[i]; };
    for (size_t i = 0; i < values.size(); ++i) {
      const double bound = rounding * std::abs(expected(i)) + kSums * right.magnitudes[i];
      if (!(std::abs(values[i] - expected(i)) <= bound) && wrong++ == 0) first = i;
    }
    EXPECT_EQ(wrong, 0U) << "of " << got.text() << "; element " << first << " is " << values[first] << ", not "
                         << expected(first);
  }

  const Convolution& c_ = GetParam();
  std::unique_ptr<Device> device_ = test_device();
  ops::Conv2dOptions options_{
      .stride = c_.stride, .padding = c_.padding, .algorithm = ops::ConvolutionAlgorithm::direct};
};

TEST_P(Conv2dBf16, Forward) {
  const std::vector<float> x_values = numbers(x(Layout::plain)), w = numbers(weight()), b = numbers(bias());
  Sums sums(c_.y().elements());
  for_each_term([&](size_t at_x, size_t at_w, size_t at_y) { sums.add(at_y, double{x_values[at_x]} * w[at_w]); });
  for (const Layout layout : image_layouts()) {
    SCOPED_TRACE(layout_name(layout));
    const Tensor y = ops::conv2d_forward(x(layout), weight(), Tensor(), options_);
    EXPECT_EQ(y.dtype(), DType::bf16);
    EXPECT_EQ(y.layout(), image_layouts().front());
    expect_near(y, sums, kRounding);
  }
  const int64_t pixels = c_.y()[2] * c_.y()[3];
  for (size_t i = 0; i < sums.values.size(); ++i)
    sums.add(i, b[static_cast<size_t>(static_cast<int64_t>(i) / pixels % c_.y()[1])]);
  options_.relu = true;
  expect_near(ops::conv2d_forward(x(image_layouts().front()), weight(), bias(), options_), sums, kRounding, true);
}

TEST_P(Conv2dBf16, BackwardData) {
  const std::vector<float> w = numbers(weight()), dy = numbers(incoming(Layout::plain));
  Sums sums(c_.x.elements());
  for_each_term([&](size_t at_x, size_t at_w, size_t at_y) { sums.add(at_x, double{w[at_w]} * dy[at_y]); });
  for (const Layout layout : image_layouts()) {
    SCOPED_TRACE(layout_name(layout));
    const Tensor gradient = ops::conv2d_backward_data(x(layout), weight(), incoming(layout), options_);
    EXPECT_EQ(gradient.dtype(), DType::bf16);
    EXPECT_EQ(gradient.layout(), layout);
    expect_near(gradient, sums, kRounding);
  }
}

TEST_P(Conv2dBf16, BackwardWeights) {
  const std::vector<float> x_values = numbers(x(Layout::plain)), dy = numbers(incoming(Layout::plain));
  const int64_t pixels = c_.y()[2] * c_.y()[3];
  Sums sums(c_.weight.elements()), of_bias(c_.weight[0]);
  for_each_term([&](size_t at_x, size_t at_w, size_t at_y) { sums.add(at_w, double{x_values[at_x]} * dy[at_y]); });
  for (size_t i = 0; i < dy.size(); ++i)
    of_bias.add(static_cast<size_t>(static_cast<int64_t>(i) / pixels % c_.y()[1]), dy[i]);
  for (const bool accumulate : {false, true}) {
    for (const Layout layout : image_layouts()) {
      SCOPED_TRACE(std::string(layout_name(layout)) + (accumulate ? ", added" : ", written"));
      const ops::Conv2dWeightGradients gradients{
          .weight = formula_tensor(*device_, c_.weight, {.tensor = 5}, weight_layout()),
          .bias = formula_tensor(*device_, {c_.weight[0]}, {.tensor = 6}),
          .accumulate_weight = accumulate,
          .accumulate_bias = accumulate};
      const std::vector<float> before = values_of(gradients.weight), bias_before = values_of(gradients.bias);
      ops::conv2d_backward_weights(x(layout), incoming(layout), gradients, options_);
      Sums weight_sums = sums, bias_sums = of_bias;
      for (size_t i = 0; accumulate && i < before.size(); ++i) weight_sums.add(i, before[i]);
      for (size_t i = 0; accumulate && i < bias_before.size(); ++i) bias_sums.add(i, bias_before[i]);
      expect_near(gradients.weight, weight_sums, 0);
      expect_near(gradients.bias, bias_sums, 0);
    }
  }
}

// A few threads have groups of images each; more threads share every group.
TEST(Conv2dBf16Threads, GradientsOfWeightsHaveTheBitsOfOneThread) {
  if (cpu_bf16_unit() == Bf16Unit::none) GTEST_SKIP() << "no unit for bf16: no tiles";
  const auto gradients_by = [](int threads, bool accumulate) {
    const auto device = test_device(threads);
    const auto images = [&](uint64_t tensor) {
      return ops::converted(formula_tensor(*device, {9, 64, 30, 30}, {.tensor = tensor}), {.dtype = DType::bf16});
    };
    const ops::Conv2dWeightGradients gradients{.weight = formula_tensor(*device, {64, 64, 3, 3}, {.tensor = 3}),
                                               .bias = formula_tensor(*device, {64}, {.tensor = 4}),
                                               .accumulate_weight = accumulate,
                                               .accumulate_bias = accumulate};
    ops::conv2d_backward_weights(images(1), images(2), gradients, {.padding = 1});
    return std::pair(values_of(gradients.weight), values_of(gradients.bias));
  };
  for (const bool accumulate : {false, true}) {
    const auto expected = gradients_by(1, accumulate);
    for (const int threads : {2, 3, 4, 5, 9})
      EXPECT_TRUE(gradients_by(threads, accumulate) == expected) << threads << " threads";
  }
}

// A stem's columns, 64 bytes for each of its outputs, are built for some images at a time.
TEST(Conv2dBf16Memory, AStemTakesNoMoreForMoreImages) {
  const auto device = test_device();
  const Shape filter = {4, 1, 3, 3};
  const ops::Conv2dOptions options{.padding = 1};
  const Tensor weight = Tensor::zeros(*device, filter, {.dtype = DType::bf16});
  const Tensor weight_gradient = Tensor::zeros(*device, filter);
  const auto workspace = [&](int64_t images) {
    const Tensor x = Tensor::zeros(*device, {images, 1, 64, 64}, {.dtype = DType::bf16});
    return device->allocator().peak_during([&] {
      const Tensor y = ops::conv2d_forward(x, weight, Tensor(), options);
      ops::conv2d_backward_weights(x, y, {.weight = weight_gradient, .bias = {}}, options);
    })[MemoryPurpose::workspace];
  };
  // Without AMX, f32 copies of the operands take 20 bytes for each output.
  EXPECT_LT(workspace(64), workspace(8) + 56 * 64 * 64 * 24);
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, Conv2dBf16,
    ::testing::Values(
        // Channels that fill blocks of 16 and 32, and that don't; images that end within 32 positions and at their end.
        Convolution{{3, 16, 7, 7}, {16, 16, 3, 3}, 1, 1}, Convolution{{1, 64, 8, 8}, {64, 64, 3, 3}, 1, 1},
        Convolution{{3, 37, 5, 9}, {64, 37, 3, 3}, 1, 1}, Convolution{{2, 64, 4, 4}, {37, 64, 3, 3}, 1, 1},
        Convolution{{3, 20, 12, 12}, {50, 20, 5, 5}, 1, 0}, Convolution{{3, 37, 6, 5}, {48, 37, 5, 5}, 1, 2},
        Convolution{{1, 48, 4, 6}, {20, 48, 3, 3}, 1, 0}, Convolution{{3, 20, 5, 5}, {16, 20, 3, 3}, 1, 2},
        // Strides, in images of even and odd sizes, with pixels that no output reads.
        Convolution{{3, 64, 8, 8}, {64, 64, 3, 3}, 2, 1}, Convolution{{3, 16, 7, 9}, {37, 16, 3, 3}, 2, 1},
        Convolution{{3, 64, 8, 7}, {48, 64, 1, 1}, 2, 0}, Convolution{{1, 37, 7, 8}, {16, 37, 5, 5}, 2, 2},
        Convolution{{2, 20, 11, 10}, {20, 20, 3, 3}, 3, 0}, Convolution{{3, 16, 1, 2}, {16, 16, 3, 3}, 2, 1},
        Convolution{{3, 64, 5, 6}, {64, 64, 1, 1}, 1, 0}, Convolution{{2, 16, 3, 3}, {32, 16, 1, 1}, 1, 1},
        Convolution{{2, 16, 1, 1}, {16, 16, 1, 1}, 2, 1},
        // Few channels, whose windows fit a tile's depth, and don't.
        Convolution{{3, 1, 9, 8}, {64, 1, 3, 3}, 1, 1}, Convolution{{3, 3, 8, 9}, {16, 3, 3, 3}, 1, 1},
        Convolution{{3, 1, 12, 12}, {20, 1, 5, 5}, 1, 0}, Convolution{{1, 3, 9, 9}, {37, 3, 3, 3}, 2, 1},
        Convolution{{2, 3, 9, 9}, {16, 3, 5, 5}, 2, 2}, Convolution{{2, 2, 2, 3}, {16, 2, 3, 3}, 2, 2},
        // More images than are packed at once; the last pack has fewer.
        Convolution{{15, 16, 12, 12}, {16, 16, 3, 3}, 1, 1}, Convolution{{39, 16, 30, 30}, {16, 16, 3, 3}, 1, 1}));

}  // namespace conv2d_bf16_test
}  // namespace dptrain
