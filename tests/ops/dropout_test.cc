// Dropout is keyed by sample, epoch and layer: nothing else decides what is dropped.

#include "ops/dropout.h"

#include <numeric>

#include "support/device_rows.h"
#include "support/expect_error.h"
#include "support/formula_tensor.h"

namespace dptrain {
namespace {

using namespace testing;

std::vector<int64_t> ids(int64_t begin, int64_t end) {
  std::vector<int64_t> result(static_cast<size_t>(end - begin));
  std::iota(result.begin(), result.end(), begin);
  return result;
}

class Dropout : public ::testing::TestWithParam<DeviceRow> {
 protected:
  /// Dropout of ones, so that the output shows the mask.
  std::vector<float> of_ones(const Shape& shape, float probability, const ops::DropoutKey& key,
                             Layout layout = Layout::plain) const {
    const std::vector<float> ones(static_cast<size_t>(shape.elements()), 1.f);
    return values_of(ops::dropout_forward(tensor_of(*device_, shape, ones, layout), probability, key).y);
  }
  std::unique_ptr<Device> device_ = GetParam().open();
};

TEST_P(Dropout, DropsItsShareAndScalesTheRest) {
  for (const float probability : {0.1f, 0.5f, 0.9f}) {
    const auto samples = ids(0, 10);
    const std::vector<float> y = of_ones({10, 5000}, probability, {.seed = 1, .sample_ids = samples});
    double dropped = 0;
    for (const float value : y) {
      dropped += value == 0;
      EXPECT_TRUE(value == 0 || value == 1.f / (1.f - probability)) << value;
    }
    const double deviation = std::sqrt(50'000.0 * probability * (1 - probability));
    EXPECT_NEAR(dropped, 50'000.0 * probability, 3 * deviation);
  }
  const auto samples = ids(0, 2);
  EXPECT_EQ(of_ones({2, 100}, 0, {.sample_ids = samples}), std::vector<float>(200, 1.f));
}

TEST_P(Dropout, DropsTheSameInEveryLayout) {
  const auto samples = ids(5, 8);
  const ops::DropoutKey key{.seed = 3, .epoch = 2, .layer = 1, .sample_ids = samples};
  const Shape shape = {3, 20, 3, 5};
  const std::vector<float> plain = of_ones(shape, 0.5f, key);
  for (const Layout layout : GetParam().image_layouts) EXPECT_EQ(of_ones(shape, 0.5f, key, layout), plain);
  // A flattened image is the same sample, too.
  EXPECT_EQ(of_ones({3, 300}, 0.5f, key), plain);
}

TEST_P(Dropout, DoesNotKnowTheBatch) {
  const auto all = ids(0, 7), head = ids(0, 3), tail = ids(3, 7);
  std::vector<float> parts = of_ones({3, 101}, 0.5f, {.sample_ids = head});
  const std::vector<float> rest = of_ones({4, 101}, 0.5f, {.sample_ids = tail});
  parts.insert(parts.end(), rest.begin(), rest.end());
  EXPECT_EQ(parts, of_ones({7, 101}, 0.5f, {.sample_ids = all}));
}

TEST_P(Dropout, DoesNotKnowTheThreads) {
  const auto samples = ids(0, 9);
  const Tensor x = Tensor::from(*device_, {9, 4001}, Formula{}.values(9 * 4001));
  const std::vector<float> expected = values_of(ops::dropout_forward(x, 0.3f, {.sample_ids = samples}).y);
  for (const int threads : {1, 3}) {
    const auto device = GetParam().open(threads);
    const Tensor same = Tensor::from(*device, {9, 4001}, Formula{}.values(9 * 4001));
    EXPECT_EQ(values_of(ops::dropout_forward(same, 0.3f, {.sample_ids = samples}).y), expected);
  }
}

TEST_P(Dropout, EveryPartOfTheKeyMatters) {
  const auto zero = ids(0, 1), one = ids(1, 2);
  const Shape shape = {1, 200};
  const auto base = of_ones(shape, 0.5f, {.seed = 1, .epoch = 1, .layer = 1, .sample_ids = zero});
  EXPECT_NE(of_ones(shape, 0.5f, {.seed = 2, .epoch = 1, .layer = 1, .sample_ids = zero}), base);
  EXPECT_NE(of_ones(shape, 0.5f, {.seed = 1, .epoch = 2, .layer = 1, .sample_ids = zero}), base);
  EXPECT_NE(of_ones(shape, 0.5f, {.seed = 1, .epoch = 1, .layer = 2, .sample_ids = zero}), base);
  EXPECT_NE(of_ones(shape, 0.5f, {.seed = 1, .epoch = 1, .layer = 1, .sample_ids = one}), base);
}

TEST_P(Dropout, BackwardFollowsTheMask) {
  const auto samples = ids(0, 2);
  const Shape shape = {2, 20, 2, 2};
  for (const Layout layout : GetParam().image_layouts) {
    const Tensor x = formula_tensor(*device_, shape, {.centre = 2}, layout);
    const ops::DropoutResult result = ops::dropout_forward(x, 0.25f, {.sample_ids = samples});
    const Tensor incoming = formula_tensor(*device_, shape, {.tensor = 1, .centre = 5}, layout);
    const std::vector<float> y = values_of(result.y), g = values_of(incoming);
    const std::vector<float> gradient = values_of(ops::dropout_backward(result.mask, incoming, 0.25f));
    for (size_t i = 0; i < y.size(); ++i) EXPECT_EQ(gradient[i], y[i] == 0 ? 0 : g[i] * (1.f / 0.75f));
    expect_zero_padding(result.y);
  }
}

TEST_P(Dropout, RefusesWhatMakesNoSense) {
  const Tensor x = Tensor::zeros(*device_, {2, 3});
  const auto one = ids(0, 1), two = ids(0, 2);
  expect_error(ExitCode::bug, {"dropout: probability 1"}, [&] { ops::dropout_forward(x, 1, {.sample_ids = two}); });
  expect_error(ExitCode::bug, {"dropout: 1 sample ids"}, [&] { ops::dropout_forward(x, 0.5f, {.sample_ids = one}); });
}

INSTANTIATE_TEST_SUITE_P(Devices, Dropout, ::testing::ValuesIn(device_rows()), RowName());

}  // namespace
}  // namespace dptrain
