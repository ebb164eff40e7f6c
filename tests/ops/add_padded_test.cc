// The widening shortcut: channels with an addition, and channels without one.

#include "ops/add_padded.h"

#include "support/device_rows.h"
#include "support/expect_error.h"
#include "support/formula_tensor.h"

namespace dptrain {
namespace add_padded_test {

using namespace testing;

struct Case {
  Shape y;
  int64_t channels;  ///< channels of x
};

/// Channels that end within a block or with one, no new channels, and channels that don't fill packs.
const std::vector<Case> kCases = {
    {{2, 40, 3, 5}, 20}, {{3, 32, 2, 2}, 16}, {{2, 21, 4, 1}, 17}, {{1, 5, 3, 3}, 5}, {{2, 64, 40, 30}, 48}};

class AddPadded : public ::testing::TestWithParam<DeviceRow> {
 protected:
  std::unique_ptr<Device> device_ = GetParam().open();
};

TEST_P(AddPadded, AddsToTheFirstChannels) {
  for (const Case& c : kCases) {
    const Shape x_shape = {c.y[0], c.channels, c.y[2], c.y[3]};
    const int64_t positions = c.y[2] * c.y[3];
    const std::vector<float> y = Formula{.tensor = 0}.values(c.y.elements());
    const std::vector<float> x = Formula{.tensor = 1}.values(x_shape.elements());
    std::vector<float> expected = y, expected_first;
    for (int64_t n = 0; n < c.y[0]; ++n) {
      for (int64_t i = 0; i < c.channels * positions; ++i) {
        const auto at = static_cast<size_t>(n * c.y[1] * positions + i);
        expected[at] += x[static_cast<size_t>(n * c.channels * positions + i)];
        expected_first.push_back(y[at]);
      }
    }
    for (const Layout of_y : GetParam().image_layouts) {
      for (const Layout of_x : GetParam().image_layouts) {
        SCOPED_TRACE(c.y.text() + " " + std::string(layout_name(of_y)) + ", " + std::string(layout_name(of_x)));
        const Tensor to = tensor_of(*device_, c.y, y, of_y), from = tensor_of(*device_, x_shape, x, of_x);
        const Tensor sum = ops::add_padded(to, from);
        EXPECT_EQ(sum.layout(), of_y);
        expect_zero_padding(sum);
        EXPECT_EQ(values_of(sum), expected);
        const Tensor first = ops::first_channels(to, x_shape);
        EXPECT_EQ(first.layout(), of_y);
        expect_zero_padding(first);
        EXPECT_EQ(values_of(first), expected_first);
      }
    }
  }
}

TEST_P(AddPadded, OfNoSamples) {
  for (const Layout layout : GetParam().image_layouts) {
    const Tensor y = Tensor::empty(*device_, {0, 20, 2, 2}, {.layout = layout});
    const Tensor x = Tensor::empty(*device_, {0, 16, 2, 2}, {.layout = layout});
    EXPECT_EQ(ops::add_padded(y, x).shape(), y.shape());
    EXPECT_EQ(ops::first_channels(y, x.shape()).shape(), x.shape());
  }
}

TEST_P(AddPadded, RefusesImagesOfOtherSizesAndMoreChannels) {
  const Tensor y = Tensor::zeros(*device_, {2, 8, 4, 4});
  for (const Shape& shape : {Shape{2, 4, 4, 3}, Shape{1, 4, 4, 4}, Shape{2, 9, 4, 4}}) {
    const Tensor x = Tensor::zeros(*device_, shape);
    expect_error(ExitCode::bug, {"add_padded", shape.text(), "[2, 8, 4, 4]"}, [&] { ops::add_padded(y, x); });
    expect_error(ExitCode::bug, {"first_channels", shape.text()}, [&] { ops::first_channels(y, shape); });
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, AddPadded, ::testing::ValuesIn(device_rows()), RowName());

}  // namespace add_padded_test
}  // namespace dptrain
