// Winograd's convolutions compute from their own operands alone: not from other images or channels in the same tiles
// and vectors, nor from earlier contents of memory. A NaN there would show.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "ops/conv2d.h"
#include "support/device_rows.h"
#include "support/formula_tensor.h"

namespace dptrain {
namespace conv2d_winograd_nan_test {

using namespace testing;

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
/// Neither number of channels fills its last block, and the tiles of all images are multiplied at once.
constexpr int64_t kImages = 3, kIn = 28, kOut = 45, kHeight = 7, kWidth = 6, kTaps = 9;

/// Formula values with NaN at the positions in `nans`.
struct Values {
  Shape shape;
  uint64_t number;

  Tensor on(Device& device, Layout layout, const std::vector<int64_t>& nans = {}) const {
    std::vector<float> values = Formula{.tensor = number}.values(shape.elements());
    for (const int64_t at : nans) values[static_cast<size_t>(at)] = kNaN;
    return tensor_of(device, shape, values, layout);
  }
};

int64_t pixel(int64_t image, int64_t channel, int64_t channels) {
  return ((image * channels + channel) * kHeight + 3) * kWidth + 2;
}

class WinogradNaN : public ::testing::TestWithParam<DeviceRow> {
 protected:
  void SetUp() override {
    if (!ops::has_winograd(*device_)) GTEST_SKIP() << "no AVX2: Winograd convolutions don't run here";
  }

  struct Results {
    Tensor y, of_x, of_weight, of_bias;
  };
  /// The results of all passes, with NaN at these positions.
  struct Nans {
    std::vector<int64_t> x, weight, dy;
  };
  Results computed(const Nans& nans = {}) {
    const Shape weight_shape = {kOut, kIn, 3, 3};
    const Layout images = ops::conv2d_output_layout(*device_, weight_shape),
                 weights = ops::conv2d_weight_layout(*device_, weight_shape);
    const Tensor x = Values{{kImages, kIn, kHeight, kWidth}, 1}.on(*device_, images, nans.x),
                 weight = Values{weight_shape, 2}.on(*device_, weights, nans.weight),
                 dy = Values{{kImages, kOut, kHeight, kWidth}, 3}.on(*device_, images, nans.dy);
    const ops::Conv2dOptions options{.padding = 1, .algorithm = ops::ConvolutionAlgorithm::winograd};
    Results results{.y = ops::conv2d_forward(x, weight, Tensor(), options),
                    .of_x = ops::conv2d_backward_data(x, weight, dy, options),
                    .of_weight = Tensor::zeros(*device_, weight_shape, {.layout = weights}),
                    .of_bias = Tensor::zeros(*device_, {kOut})};
    ops::conv2d_backward_weights(x, dy, {.weight = results.of_weight, .bias = results.of_bias}, options);
    return results;
  }

  /// `is_hit` says which parts of [outer, inner, rest] have a NaN; all others must have the bits of `clean`.
  template <class IsHit>
  static void expect_nan_only(const Tensor& hit, const Tensor& clean, int64_t inner, int64_t rest,
                              const IsHit& is_hit) {
    const std::vector<float> got = values_of(hit), expected = values_of(clean);
    ASSERT_EQ(got.size(), expected.size());
    const int64_t parts = hit.elements() / rest;
    for (int64_t part = 0; part < parts; ++part) {
      const auto begin = got.begin() + part * rest, end = begin + rest;
      const bool has_nan = std::any_of(begin, end, [](float value) { return std::isnan(value); });
      EXPECT_EQ(has_nan, is_hit(part / inner, part % inner)) << part / inner << ", " << part % inner;
      if (!has_nan) {
        EXPECT_TRUE(std::equal(begin, end, expected.begin() + part * rest)) << part / inner << ", " << part % inner;
      }
    }
  }

  std::unique_ptr<Device> device_ = GetParam().open(/*threads=*/1);
};

TEST_P(WinogradNaN, OfAnImageIsInItsOutputsAlone) {
  const Results clean = computed(), hit = computed({.x = {pixel(1, 5, kIn)}, .weight = {}, .dy = {pixel(2, 7, kOut)}});
  expect_nan_only(hit.y, clean.y, kOut, kHeight * kWidth, [](int64_t image, int64_t) { return image == 1; });
  expect_nan_only(hit.of_x, clean.of_x, kIn, kHeight * kWidth, [](int64_t image, int64_t) { return image == 2; });
  expect_zero_padding(hit.y);
  expect_zero_padding(hit.of_x);
}

TEST_P(WinogradNaN, OfAChannelIsInItsWeightsGradientsAlone) {
  const Results clean = computed(), hit = computed({.x = {pixel(1, 5, kIn)}, .weight = {}, .dy = {pixel(2, 7, kOut)}});
  expect_nan_only(hit.of_weight, clean.of_weight, kIn, kTaps,
                  [](int64_t output, int64_t input) { return output == 7 || input == 5; });
  expect_nan_only(hit.of_bias, clean.of_bias, 1, 1, [](int64_t output, int64_t) { return output == 7; });
}

TEST_P(WinogradNaN, OfAWeightIsInItsChannelsAlone) {
  const Results clean = computed(), hit = computed({.x = {}, .weight = {(7 * kIn + 5) * kTaps + 4}, .dy = {}});
  expect_nan_only(hit.y, clean.y, kOut, kHeight * kWidth, [](int64_t, int64_t channel) { return channel == 7; });
  expect_nan_only(hit.of_x, clean.of_x, kIn, kHeight * kWidth, [](int64_t, int64_t channel) { return channel == 5; });
}

TEST_P(WinogradNaN, ThatWasInMemoryBeforeIsInNothing) {
  const Results clean = computed();
  std::vector<Tensor> blocks;
  for (const int64_t elements : {int64_t{1} << 24, int64_t{1} << 16, int64_t{1} << 12}) {
    const std::vector<float> nans(static_cast<size_t>(elements), kNaN);
    blocks.push_back(Tensor::from(*device_, {elements}, nans));
  }
  blocks.clear();
  const Tensor again = Tensor::empty(*device_, {int64_t{1} << 20});
  ASSERT_TRUE(std::isnan(again.values().front())) << "memory is taken again as it was left";
  const Results hit = computed();
  EXPECT_TRUE(stored_values(hit.y) == stored_values(clean.y));
  EXPECT_TRUE(stored_values(hit.of_x) == stored_values(clean.of_x));
  EXPECT_TRUE(stored_values(hit.of_weight) == stored_values(clean.of_weight));
  EXPECT_TRUE(stored_values(hit.of_bias) == stored_values(clean.of_bias));
}

INSTANTIATE_TEST_SUITE_P(Devices, WinogradNaN, ::testing::ValuesIn(device_rows()), RowName());

}  // namespace conv2d_winograd_nan_test
}  // namespace dptrain
