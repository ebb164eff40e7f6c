// Operators that compute each element separately, exactly: ReLU, addition, reordering, and the reductions over them.

#include "ops/activation.h"
#include "ops/add.h"
#include "ops/pytorch_cases.h"
#include "ops/reduce.h"
#include "support/expect_error.h"
#include "support/test_device.h"

namespace dptrain {
namespace elementwise_test {

using namespace testing;

/// 20 channels fill neither blocks of 8 nor of 16; 50,000 elements are more than one thread's share of work.
const std::vector<Shape> kShapes = {{2, 20, 3, 5}, {3, 16, 1, 1}, {1, 1, 7, 2}, {50'000}, {33, 7}, {1}};

class Elementwise : public ::testing::TestWithParam<DeviceRow> {
 protected:
  /// Calls `check` for every shape in every layout that it can have.
  template <class Check>
  void for_each_layout(const Check& check) const {
    for (const Shape& shape : kShapes) {
      for (const Layout layout : layouts_of(GetParam(), shape)) {
        SCOPED_TRACE(shape.text() + " " + std::string(layout_name(layout)));
        check(shape, layout);
      }
    }
  }
  std::unique_ptr<Device> device_ = GetParam().open();
};

TEST_P(Elementwise, ReluKeepsWhatIsPositive) {
  for_each_layout([&](const Shape& shape, Layout layout) {
    std::vector<float> x = Formula{.tensor = 1}.values(shape.elements());
    x[0] = 0;  // at zero itself no gradient flows
    const std::vector<float> incoming = Formula{.tensor = 2}.values(shape.elements());
    std::vector<float> expected(x.size()), expected_gradient(x.size());
    for (size_t i = 0; i < x.size(); ++i) {
      expected[i] = std::max(0.f, x[i]);
      expected_gradient[i] = x[i] > 0 ? incoming[i] : 0;
    }
    const Tensor y = ops::activation_forward(ops::kRelu, tensor_of(*device_, shape, x, layout));
    EXPECT_EQ(y.layout(), layout);
    EXPECT_EQ(values_of(y), expected);
    for (const Layout of_gradient : {layout, Layout::plain}) {
      const Tensor gradient =
          ops::activation_backward(ops::kRelu, y, tensor_of(*device_, shape, incoming, of_gradient));
      EXPECT_EQ(gradient.layout(), layout);
      EXPECT_EQ(values_of(gradient), expected_gradient);
    }
  });
}

TEST_P(Elementwise, AddsInEveryLayout) {
  for_each_layout([&](const Shape& shape, Layout layout) {
    const std::vector<float> a = Formula{.tensor = 1}.values(shape.elements());
    const std::vector<float> b = Formula{.tensor = 2}.values(shape.elements());
    std::vector<float> expected(a);
    for (size_t i = 0; i < a.size(); ++i) expected[i] += b[i];
    const Tensor left = tensor_of(*device_, shape, a, layout), right = tensor_of(*device_, shape, b, layout);
    const Tensor sum = ops::add(left, right);
    EXPECT_EQ(values_of(sum), expected);
    expect_zero_padding(shape.rank() == 4 ? sum : Tensor::zeros(*device_, {1, 1, 1, 1}));
    EXPECT_EQ(values_of(left), a);
    ops::add_into(left, right);
    EXPECT_EQ(values_of(left), expected);
    EXPECT_EQ(values_of(right), b);
  });
}

TEST_P(Elementwise, SumsAndMeansLeaveThePaddingOut) {
  for_each_layout([&](const Shape& shape, Layout layout) {
    const std::vector<float> x = Formula{.tensor = 1, .centre = 3}.values(shape.elements());
    double total = 0;
    for (const float value : x) total += value;
    const double count = static_cast<double>(x.size());
    const Tensor tensor = tensor_of(*device_, shape, x, layout);
    EXPECT_NEAR(values_of(ops::reduce_forward(tensor, ops::Reduction::sum))[0], total, 1e-7 * total);
    EXPECT_NEAR(values_of(ops::reduce_forward(tensor, ops::Reduction::mean))[0], total / count, 1e-7 * total / count);
    const Tensor incoming = tensor_of(*device_, {1}, {6});
    const Tensor of_sum = ops::reduce_backward(tensor, incoming, ops::Reduction::sum);
    EXPECT_EQ(of_sum.layout(), layout);
    EXPECT_EQ(values_of(of_sum), std::vector<float>(x.size(), 6));
    EXPECT_EQ(values_of(ops::reduce_backward(tensor, incoming, ops::Reduction::mean)),
              std::vector<float>(x.size(), 6 / static_cast<float>(x.size())));
  });
}

TEST_P(Elementwise, RefusesUnequalShapesAndLayouts) {
  const Tensor a = Tensor::zeros(*device_, {1, 16, 2, 2}), b = Tensor::zeros(*device_, {1, 16, 2, 3});
  const Tensor c = Tensor::zeros(*device_, {1, 16, 2, 2}, {.layout = Layout::nhwc});
  expect_error(ExitCode::bug, {"add", "[1, 16, 2, 2]", "[1, 16, 2, 3]"}, [&] { ops::add(a, b); });
  expect_error(ExitCode::bug, {"add", "plain", "nhwc"}, [&] { ops::add(a, c); });
  expect_error(ExitCode::bug, {"add"}, [&] { ops::add_into(a, c); });
  expect_error(ExitCode::bug, {"relu backward"}, [&] { ops::activation_backward(ops::kRelu, a, b); });
  expect_error(ExitCode::bug, {"reduce backward"}, [&] { ops::reduce_backward(a, a, ops::Reduction::sum); });
}

TEST_P(Elementwise, ReorderGoesBetweenAnyTwoLayoutsAndBack) {
  const auto& images = GetParam().image_layouts;
  for (const Shape& shape : {Shape{2, 20, 3, 5}, Shape{1, 3, 4, 4}, Shape{3, 16, 1, 2}, Shape{2, 1, 5, 1}}) {
    const std::vector<float> values = Formula{}.values(shape.elements());
    for (const Layout from : images) {
      for (const Layout to : images) {
        SCOPED_TRACE(std::string(layout_name(from)) + " to " + std::string(layout_name(to)));
        const Tensor there = ops::reorder(tensor_of(*device_, shape, values, from), to);
        EXPECT_EQ(there.layout(), to);
        expect_zero_padding(there);
        EXPECT_EQ(values_of(ops::reorder(there, from)), values);
      }
    }
  }
}

TEST(BlockedLayouts, TakeWeightsAndGiveThemBack) {
  const auto device = test_device();
  for (const Shape& shape : {Shape{20, 9, 3, 3}, Shape{16, 16, 1, 1}, Shape{64, 32, 2, 3}}) {
    const std::vector<float> values = Formula{}.values(shape.elements());
    for (const Layout layout : {Layout::oihw8i8o, Layout::oihw16i16o}) {
      const Tensor blocked = tensor_of(*device, shape, values, layout);
      EXPECT_EQ(values_of(blocked), values);
      double stored = 0, logical = 0;
      for (const float value : stored_values(blocked)) stored += std::abs(value);
      for (const float value : values) logical += std::abs(value);
      EXPECT_NEAR(stored, logical, 1e-6 * logical) << "padding that isn't zero";
    }
  }
}

/// A [1, 9, 1, 2] tensor whose element (c, w) is 10 * c + w.
Tensor numbered_channels(Device& device) {
  std::vector<float> values;
  for (int c = 0; c < 9; ++c)
    for (int w = 0; w < 2; ++w) values.push_back(static_cast<float>(10 * c + w));
  return Tensor::from(device, {1, 9, 1, 2}, values);
}

TEST_P(Elementwise, ReorderPutsChannelsInnermost) {
  const Tensor x = numbered_channels(*device_);
  EXPECT_EQ(stored_values(ops::reorder(x, Layout::nhwc)),
            (std::vector<float>{0, 10, 20, 30, 40, 50, 60, 70, 80, 1, 11, 21, 31, 41, 51, 61, 71, 81}));
  EXPECT_EQ(ops::reorder(x, Layout::plain).raw(), x.raw());
}

TEST(BlockedLayouts, LieAsDocumented) {
  const auto device = test_device();
  EXPECT_EQ(stored_values(ops::reorder(numbered_channels(*device), Layout::nchw8c)),
            (std::vector<float>{0,  10, 20, 30, 40, 50, 60, 70, 1,  11, 21, 31, 41, 51, 61, 71,
                                80, 0,  0,  0,  0,  0,  0,  0,  81, 0,  0,  0,  0,  0,  0,  0}));
  // Output channels are innermost in blocked weights: [2, 1, 1, 1] begins with both of them.
  const std::vector<float> weights =
      stored_values(ops::reorder(Tensor::from(*device, {2, 1, 1, 1}, {{5, 6}}), Layout::oihw8i8o));
  EXPECT_EQ(weights[0], 5);
  EXPECT_EQ(weights[1], 6);
}

INSTANTIATE_TEST_SUITE_P(Devices, Elementwise, ::testing::ValuesIn(device_rows()), RowName());

}  // namespace elementwise_test
}  // namespace dptrain
