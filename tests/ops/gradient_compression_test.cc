// The parts of compressed sums of gradients: scaled halves, two bits per value, residuals, power iteration.
#include <cmath>
#include <limits>
#include <numeric>

#include "ops/power_iteration.h"
#include "ops/residual.h"
#include "ops/scaled_half.h"
#include "ops/two_bit.h"
#include "support/device_rows.h"
#include "support/formula_tensor.h"
#include "support/test_device.h"

namespace dptrain {
namespace gradient_compression_test {

using namespace testing;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

class GradientCompressionOps : public ::testing::TestWithParam<DeviceRow> {
 protected:
  std::unique_ptr<Device> device_ = GetParam().open();

  Tensor row(const std::vector<float>& values) const {
    return tensor_of(*device_, {static_cast<int64_t>(values.size())}, values);
  }
  /// Converts to f16 and back.
  std::vector<float> through_f16(const std::vector<float>& values, float bound) const {
    const Tensor halves = Tensor::empty(*device_, {static_cast<int64_t>(values.size())}, {.dtype = DType::f16});
    const Tensor back = Tensor::empty(*device_, halves.shape());
    ops::scale_to_f16(row(values), row({bound}), halves);
    ops::scale_from_f16(halves, row({bound}), back);
    return back.values();
  }
  struct Encoded {
    std::vector<int32_t> words;
    std::vector<float> decoded;
  };
  Encoded encode(const std::vector<float>& values, float threshold) const {
    const Tensor from = row(values), to = Tensor::empty(*device_, from.shape());
    const Tensor words = Tensor::empty(*device_, {ops::two_bit_words(from)}, {.dtype = DType::i32});
    ops::two_bit_encode(from, row({threshold}), words);
    ops::two_bit_decode({.words = words, .thresholds = row({threshold})}, to);
    return {integers_of(words), to.values()};
  }
};

TEST_P(GradientCompressionOps, TheLargestMagnitudeIsFound) {
  std::vector<float> values = Formula{}.values(40'001);
  values[31'007] = -1.5f;
  EXPECT_EQ(ops::largest_magnitude(row(values)).values()[0], 1.5f);
  EXPECT_EQ(ops::largest_magnitude(row({})).values()[0], 0.f);
  values[5] = kInfinity;
  EXPECT_EQ(ops::largest_magnitude(row(values)).values()[0], kInfinity);
  values[40'000] = kNan;
  EXPECT_TRUE(std::isnan(ops::largest_magnitude(row(values)).values()[0]));
}

TEST_P(GradientCompressionOps, HalvesKeepTheirPrecisionWhateverTheSize) {
  const std::vector<float> values = {1, -0.333251953125f, 0x1p-23f, 0, 0.0999755859375f};  // 11 bits or fewer
  for (const int size : {-120, -30, 0, 30, 120}) {
    std::vector<float> sized;
    for (const float value : values) sized.push_back(std::ldexp(value, size));
    EXPECT_EQ(through_f16(sized, std::ldexp(3.f, size)), sized) << size;
  }
  EXPECT_EQ(through_f16({0.f, -0.f}, 0), (std::vector<float>{0, 0}));
}

TEST_P(GradientCompressionOps, HalvesPassOnWhatIsNotFinite) {
  const auto back = through_f16({kInfinity, -kInfinity, kNan, 1}, kInfinity);
  EXPECT_EQ(back[0], kInfinity);
  EXPECT_EQ(back[1], -kInfinity);
  EXPECT_TRUE(std::isnan(back[2]));
  EXPECT_EQ(back[3], 1.f);
}

TEST_P(GradientCompressionOps, TwoBitsAreSixteenToAWord) {
  const auto [words, decoded] = encode({2, -2, 0, 1.9f, -1.9f, 5, -7, 0, 0, 0, 0, 0, 0, 0, 0, 2, -2}, 2);
  EXPECT_EQ(words, (std::vector<int32_t>{0b01 | 0b10 << 2 | 0b01 << 10 | 0b10 << 12 | 0b01 << 30, 0b10}));
  EXPECT_EQ(decoded, (std::vector<float>{2, -2, 0, 0, 0, 2, -2, 0, 0, 0, 0, 0, 0, 0, 0, 2, -2}));
  EXPECT_EQ(encode({}, 1).words, std::vector<int32_t>());
  EXPECT_EQ(encode({0, -0.f}, 0).decoded, (std::vector<float>{0, 0}));
}

TEST_P(GradientCompressionOps, TwoBitsPassOnWhatIsNotFinite) {
  for (const float threshold : {1.f, kInfinity, kNan}) {
    const auto decoded = encode({kInfinity, 0.5f, -kInfinity, kNan}, threshold).decoded;
    for (const size_t i : {0, 2, 3}) EXPECT_TRUE(std::isnan(decoded[i])) << i;
    EXPECT_EQ(decoded[1], 0.f);
  }
}

/// Every value in every place of a word, and with every length of the last word.
TEST_P(GradientCompressionOps, TwoBitsStandForEachValueAlone) {
  const std::vector<float> kinds = {0, -0.f, 1, -1, 0.99f, -0.99f, 1e30f, -1e30f, 1e-40f, kInfinity, -kInfinity, kNan};
  for (size_t count = 1; count < 50; ++count) {
    std::vector<float> values(count);
    for (size_t i = 0; i < count; ++i) values[i] = kinds[(i * i + i / 5 + count) % kinds.size()];
    for (const float threshold : {1.f, 0.f}) {
      std::vector<int32_t> expected((count + 15) / 16);
      for (size_t i = 0; i < count; ++i) {
        const float value = values[i];
        const uint32_t code = !std::isfinite(value) ? 3 : value >= threshold ? 1 : value <= -threshold ? 2 : 0;
        expected[i / 16] |= static_cast<int32_t>(code << 2 * (i % 16));
      }
      const auto [words, decoded] = encode(values, threshold);
      EXPECT_EQ(words, expected) << count;
      for (size_t i = 0; i < count; ++i) {
        if (std::isfinite(values[i]))
          EXPECT_EQ(decoded[i], values[i] >= threshold ? threshold : values[i] <= -threshold ? -threshold : 0) << i;
        else
          EXPECT_TRUE(std::isnan(decoded[i])) << i;
      }
    }
  }
}

TEST_P(GradientCompressionOps, MessagesAreAddedInTheTreesOrder) {
  // In the tree the sum is (1e8 + 1) + (-1e8 + 1): both ones are lost. Without the last rank it is (1e8 + 1) - 1e8.
  const int64_t stride = 5;
  for (const int64_t ranks : {1, 2, 3, 4}) {
    const std::vector<float> thresholds = {1e8f, 1, 1e8f, 1};
    std::vector<float> all(static_cast<size_t>((ranks - 1) * stride + 1));
    std::vector<int32_t> words(all.size() + 1, 0);
    for (int64_t r = 0; r < ranks; ++r) {
      all[static_cast<size_t>(r * stride)] = thresholds[static_cast<size_t>(r)];
      words[static_cast<size_t>(r * stride)] = r == 2 ? 0b10 : 0b01;
      words[static_cast<size_t>(r * stride + 1)] = 0b01;
    }
    const Tensor sum = Tensor::empty(*device_, {17});
    ops::two_bit_decode({.words = labels_on(*device_, words), .thresholds = row(all), .ranks = ranks, .stride = stride},
                        sum);
    const std::vector<float> got = sum.values(), expected = {1e8f, 1e8f, 0, 0}, positive = {1e8f, 1e8f, 2e8f, 2e8f};
    EXPECT_EQ(got[0], expected[static_cast<size_t>(ranks - 1)]);
    EXPECT_EQ(got[1], 0.f);
    EXPECT_EQ(got[16], positive[static_cast<size_t>(ranks - 1)]) << "the next word";
  }
}

TEST_P(GradientCompressionOps, TheThresholdFollowsTheMeanSquareOfLogicalElements) {
  const Tensor threshold = Tensor::empty(*device_, {1});
  ops::two_bit_threshold(row({3, -3, 3, -3}), 0.5, threshold);
  EXPECT_EQ(threshold.values()[0], 1.5f);
  ops::two_bit_threshold(row({0, 0}), 1, threshold);
  EXPECT_EQ(threshold.values()[0], 0.f);
  for (const Layout layout : GetParam().image_layouts) {
    ops::two_bit_threshold(tensor_of(*device_, {1, 3, 1, 1}, {2, 2, 2}, layout), 1, threshold);
    EXPECT_EQ(threshold.values()[0], 2.f) << layout_name(layout);
  }
}

TEST_P(GradientCompressionOps, ResidualsJoinAndStay) {
  const Tensor residual = row({1, 2, 3, kInfinity, 5}), scale = row({4});
  ops::take_up_residual(residual, row({0.5f, 0.5f, kInfinity, 0, kNan}), scale);
  EXPECT_EQ(residual.values()[0], 4.5f);
  EXPECT_EQ(residual.values()[1], 8.5f);
  ops::leave_residual(residual, row({4, kNan, kNan, 1, 1}), scale);
  EXPECT_EQ(residual.values(), (std::vector<float>{0.125f, 2.125f, 0, 0, 0}));
  ops::take_up_residual(residual, row({1, 1, 1, 1, 1}));
  ops::leave_residual(residual, row({1, 1, 2, 0, 1}));
  EXPECT_EQ(residual.values(), (std::vector<float>{0.125f, 2.125f, -1, 1, 0}));
}

TEST_P(GradientCompressionOps, ColumnsBecomeOrthonormal) {
  constexpr int64_t kRows = 700, kColumns = 5;
  std::vector<float> values = Formula{}.values(kRows * kColumns);
  // The third column is a combination of two others except for 1e-4 of it, and the fifth entirely.
  for (int64_t r = 0; r < kRows; ++r) {
    float* row_of = values.data() + r * kColumns;
    row_of[2] = row_of[0] - 2 * row_of[1] + 1e-4f * row_of[2];
    row_of[4] = 3 * row_of[1];
  }
  const Tensor matrix = tensor_of(*device_, {kRows, kColumns}, values);
  ops::orthogonalize_columns({&matrix, 1});
  const std::vector<float> got = matrix.values();
  for (int64_t a = 0; a < kColumns; ++a)
    for (int64_t b = a; b < kColumns; ++b) {
      double product = 0;
      for (int64_t r = 0; r < kRows; ++r)
        product += double{got[static_cast<size_t>(r * kColumns + a)]} * got[static_cast<size_t>(r * kColumns + b)];
      // The result is stored in f32, with an error of 2^-24 per number.
      EXPECT_NEAR(product, a == b && a != 4 ? 1 : 0, 1e-6) << a << ", " << b;
    }
}

TEST_P(GradientCompressionOps, AColumnThatIsNotFiniteIsNoNumber) {
  const Tensor matrix = tensor_of(*device_, {3, 2}, {1, 1, kInfinity, 1, 1, 1});
  ops::orthogonalize_columns({&matrix, 1});
  for (const float value : matrix.values()) EXPECT_TRUE(std::isnan(value));
}

TEST_P(GradientCompressionOps, DirectionsAreKeptWhereNothingWasFound) {
  const Tensor directions = tensor_of(*device_, {4, 2}, {1, 2, 3, 4, 5, 6, 7, 8});
  const Tensor found = tensor_of(*device_, {4, 2}, {9, 0, 0, 0, kNan, 1, 1, -kInfinity});
  ops::renew_directions({&directions, 1}, {&found, 1});
  EXPECT_EQ(directions.values(), (std::vector<float>{9, 0, 3, 4, 5, 6, 7, 8}));
}

/// More matrices than one launch on a GPU takes, of different sizes: each result is the same as alone.
TEST_P(GradientCompressionOps, ManyMatricesAtOnceAreAsOneByOne) {
  std::vector<Tensor> bases, alone, directions, kept, found;
  for (int64_t m = 0; m < 70; ++m) {
    const int64_t columns = 1 + m % 4, rows = columns + 7 * m;
    for (auto* list : {&bases, &alone})
      list->push_back(formula_tensor(*device_, {rows, columns}, {.tensor = static_cast<uint64_t>(m)}));
    for (auto* list : {&directions, &kept})
      list->push_back(formula_tensor(*device_, {columns, rows}, {.tensor = static_cast<uint64_t>(m)}));
    found.push_back(formula_tensor(*device_, {columns, rows}, {.tensor = static_cast<uint64_t>(m) + 100}));
    if (m % 3 == 0) found.back().fill_zero();
  }
  ops::orthogonalize_columns(bases);
  ops::renew_directions(directions, found);
  for (size_t m = 0; m < bases.size(); ++m) {
    ops::orthogonalize_columns({&alone[m], 1});
    EXPECT_EQ(bases[m].values(), alone[m].values()) << m;
    EXPECT_EQ(directions[m].values(), (m % 3 == 0 ? kept : found)[m].values()) << m;
  }
  ops::orthogonalize_columns({});
  ops::renew_directions({}, {});
}

INSTANTIATE_TEST_SUITE_P(Devices, GradientCompressionOps, ::testing::ValuesIn(device_rows()), RowName());

TEST(GradientCompressionThreads, AnyNumberEndsInTheSameBits) {
  const auto result = [](int threads) {
    const auto device = test_device(threads);
    const Tensor residual = formula_tensor(*device, {100'003}, {.tensor = 1});
    const Tensor sent = Tensor::empty(*device, residual.shape());
    const Tensor halves = Tensor::empty(*device, residual.shape(), {.dtype = DType::f16});
    const Tensor threshold = Tensor::empty(*device, {1});
    const Tensor words = Tensor::empty(*device, {ops::two_bit_words(residual)}, {.dtype = DType::i32});
    ops::take_up_residual(residual, formula_tensor(*device, {100'003}, {.tensor = 2}));
    ops::two_bit_threshold(residual, 1, threshold);
    ops::two_bit_encode(residual, threshold, words);
    ops::two_bit_decode({.words = words, .thresholds = threshold}, sent);
    ops::leave_residual(residual, sent);
    const Tensor largest = ops::largest_magnitude(residual);
    ops::scale_to_f16(residual, largest, halves);
    ops::scale_from_f16(halves, largest, sent);
    std::vector<float> all = residual.values();
    const std::vector<float> back = sent.values();
    all.insert(all.end(), back.begin(), back.end());
    return all;
  };
  const auto one = result(1);
  for (const int threads : {2, 3}) EXPECT_TRUE(result(threads) == one) << threads;
}

}  // namespace gradient_compression_test
}  // namespace dptrain
