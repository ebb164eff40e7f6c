// Dropout is keyed by sample, epoch and layer; nothing else decides what is dropped.

#include "ops/dropout.h"

#include <utility>

#include "base/random.h"
#include "ops/dropout_kernels.h"
#include "support/device_rows.h"
#include "support/expect_error.h"
#include "support/formula_tensor.h"
#include "support/test_device.h"

namespace dptrain {
namespace dropout_test {

using namespace testing;

/// The numbers that decide the draws.
struct Key {
  uint64_t seed = 0;
  int32_t epoch = 0;
  uint32_t layer = 0;
  std::pair<int64_t, int64_t> samples;  ///< [first, end)

  ops::DropoutKey on(Device& device) const {
    return {.seed = seed,
            .layer = layer,
            .epoch = epoch_on(device, epoch),
            .sample_ids = sample_ids_on(device, samples.first, samples.second)};
  }
};

class Dropout : public ::testing::TestWithParam<DeviceRow> {
 protected:
  /// Dropout of ones: the output shows the mask.
  std::vector<float> of_ones(const Shape& shape, float probability, const Key& key,
                             Layout layout = Layout::plain) const {
    const std::vector<float> ones(static_cast<size_t>(shape.elements()), 1.f);
    return values_of(ops::dropout_forward(tensor_of(*device_, shape, ones, layout), probability, key.on(*device_)).y);
  }
  std::unique_ptr<Device> device_ = GetParam().open();
};

TEST_P(Dropout, DropsItsShareAndScalesTheRest) {
  for (const float probability : {0.1f, 0.5f, 0.9f}) {
    const std::vector<float> y = of_ones({10, 5000}, probability, {.seed = 1, .samples = {0, 10}});
    double dropped = 0;
    for (const float value : y) {
      dropped += value == 0;
      EXPECT_TRUE(value == 0 || value == 1.f / (1.f - probability)) << value;
    }
    const double deviation = std::sqrt(50'000.0 * probability * (1 - probability));
    EXPECT_NEAR(dropped, 50'000.0 * probability, 3 * deviation);
  }
  EXPECT_EQ(of_ones({2, 100}, 0, {.samples = {0, 2}}), std::vector<float>(200, 1.f));
}

TEST_P(Dropout, DropsTheSameInEveryLayout) {
  const Key key{.seed = 3, .epoch = 2, .layer = 1, .samples = {5, 8}};
  const Shape shape = {3, 20, 3, 5};
  const std::vector<float> plain = of_ones(shape, 0.5f, key);
  for (const Layout layout : GetParam().image_layouts) EXPECT_EQ(of_ones(shape, 0.5f, key, layout), plain);
  // A flattened image is still the same sample.
  EXPECT_EQ(of_ones({3, 300}, 0.5f, key), plain);
}

TEST_P(Dropout, DoesNotKnowTheBatch) {
  std::vector<float> parts = of_ones({3, 101}, 0.5f, {.samples = {0, 3}});
  const std::vector<float> rest = of_ones({4, 101}, 0.5f, {.samples = {3, 7}});
  parts.insert(parts.end(), rest.begin(), rest.end());
  EXPECT_EQ(parts, of_ones({7, 101}, 0.5f, {.samples = {0, 7}}));
}

TEST_P(Dropout, RowsDropWhatTheyDropAmongAll) {
  for (const int64_t width : {7, 64, 101}) {
    SCOPED_TRACE(width);
    const Key key{.seed = 4, .layer = 2, .samples = {3, 6}};
    const int64_t sequence = 5;
    const std::vector<float> all = of_ones({3, sequence, width}, 0.5f, key);
    const std::vector<int32_t> rows = {0, 13, 6, 6, 14};
    const auto count = static_cast<int64_t>(rows.size());
    ops::DropoutKey of_rows = key.on(*device_);
    of_rows.rows = labels_on(*device_, rows);
    of_rows.sequence = sequence;
    const std::vector<float> ones(static_cast<size_t>(count * width), 1.f);
    const std::vector<float> y =
        values_of(ops::dropout_forward(tensor_of(*device_, {count, width}, ones), 0.5f, of_rows).y);
    for (int64_t r = 0; r < count; ++r)
      for (int64_t i = 0; i < width; ++i)
        ASSERT_EQ(y[static_cast<size_t>(r * width + i)],
                  all[static_cast<size_t>(rows[static_cast<size_t>(r)] * width + i)])
            << "row " << r << ", " << i;
  }
}

// A sample may have more than 2^34 numbers to draw: blocks of four are counted in 64 bits.
TEST(DropoutKernels, CountOnPastTheirThirtyTwoBits) {
  constexpr uint32_t kLayer = 3, kEpoch = 2, kSample = 7, kThreshold = 0x80000000u;
  const KeyedRandom random(11, RandomPurpose::dropout, kEpoch, kSample);
  const ops::RandomCounter counter{
      .key = {random.key()[0], random.key()[1]}, .upper = kLayer << 8, .subject = kSample, .epoch = kEpoch};
  const int64_t first = (int64_t{1} << 34) - 64;
  std::vector<uint8_t> mask(192);
  ops::dropout_kernels().draw(counter, first, 192, kThreshold, mask.data());
  for (int64_t i = 0; i < 192; ++i) {
    const auto block = (uint64_t{kLayer} << 40) + static_cast<uint64_t>((first + i) / 4);
    EXPECT_EQ(mask[static_cast<size_t>(i)], random.words(block)[static_cast<size_t>(i % 4)] >= kThreshold) << i;
  }
}

TEST_P(Dropout, DoesNotKnowTheThreads) {
  const Key key{.samples = {0, 9}};
  const Tensor x = Tensor::from(*device_, {9, 4001}, Formula{}.values(9 * 4001));
  const std::vector<float> expected = values_of(ops::dropout_forward(x, 0.3f, key.on(*device_)).y);
  for (const int threads : {1, 3}) {
    const auto device = GetParam().open(threads);
    const Tensor same = Tensor::from(*device, {9, 4001}, Formula{}.values(9 * 4001));
    EXPECT_EQ(values_of(ops::dropout_forward(same, 0.3f, key.on(*device)).y), expected);
  }
}

TEST_P(Dropout, EveryPartOfTheKeyMatters) {
  const Shape shape = {1, 200};
  const auto base = of_ones(shape, 0.5f, {.seed = 1, .epoch = 1, .layer = 1, .samples = {0, 1}});
  EXPECT_NE(of_ones(shape, 0.5f, {.seed = 2, .epoch = 1, .layer = 1, .samples = {0, 1}}), base);
  EXPECT_NE(of_ones(shape, 0.5f, {.seed = 1, .epoch = 2, .layer = 1, .samples = {0, 1}}), base);
  EXPECT_NE(of_ones(shape, 0.5f, {.seed = 1, .epoch = 1, .layer = 2, .samples = {0, 1}}), base);
  EXPECT_NE(of_ones(shape, 0.5f, {.seed = 1, .epoch = 1, .layer = 1, .samples = {1, 2}}), base);
}

TEST_P(Dropout, BackwardFollowsTheMask) {
  const Key key{.samples = {0, 2}};
  const Shape shape = {2, 20, 2, 2};
  for (const Layout layout : GetParam().image_layouts) {
    const Tensor x = formula_tensor(*device_, shape, {.centre = 2}, layout);
    const ops::DropoutResult result = ops::dropout_forward(x, 0.25f, key.on(*device_));
    const Tensor incoming = formula_tensor(*device_, shape, {.tensor = 1, .centre = 5}, layout);
    const std::vector<float> y = values_of(result.y), g = values_of(incoming);
    const std::vector<float> gradient = values_of(ops::dropout_backward(result.mask, incoming, 0.25f));
    for (size_t i = 0; i < y.size(); ++i) EXPECT_EQ(gradient[i], y[i] == 0 ? 0 : g[i] * (1.f / 0.75f));
    expect_zero_padding(result.y);
  }
}

TEST_P(Dropout, RefusesWhatMakesNoSense) {
  const Tensor x = Tensor::zeros(*device_, {2, 3});
  const Key one{.samples = {0, 1}}, two{.samples = {0, 2}};
  expect_error(ExitCode::bug, {"dropout: probability 1"}, [&] { ops::dropout_forward(x, 1, two.on(*device_)); });
  expect_error(ExitCode::bug, {"dropout: 1 sample ids"}, [&] { ops::dropout_forward(x, 0.5f, one.on(*device_)); });
}

INSTANTIATE_TEST_SUITE_P(Devices, Dropout, ::testing::ValuesIn(device_rows()), RowName());

}  // namespace dropout_test
}  // namespace dptrain
