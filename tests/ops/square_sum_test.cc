// Sums of squares are exact: sums of whole numbers of 640 bits, on every device, however values are split.

#include "ops/square_sum.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>

#include "ops/square_digits.h"
#include "support/device_rows.h"
#include "support/formula_tensor.h"
#include "support/test_device.h"

namespace dptrain {
namespace square_sum_test {

using namespace testing;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

/// The numbers of a sum, on the host.
using Numbers = std::vector<double>;

/// An exact sum times 2^300, computed bit by bit as on paper.
class LongSum {
 public:
  explicit LongSum(const std::vector<float>& values) {
    for (const float value : values) add_square(value);
  }
  bool bit(int place) const { return place >= 0 && (words_[static_cast<size_t>(place / 32)] >> place % 32 & 1) != 0; }
  /// A digit of 40 bits.
  double digit(int number) const {
    double digit = 0;
    for (int place = 40 * number + 39; place >= 40 * number; --place) digit = 2 * digit + (bit(place) ? 1 : 0);
    return digit;
  }
  /// Rounded to nearest, ties to even.
  double rounded() const {
    int top = 639;
    while (top >= 0 && !bit(top)) --top;
    if (top < 0) return 0;
    double significand = 0;
    for (int place = top; place > top - 53; --place) significand = 2 * significand + (bit(place) ? 1 : 0);
    bool rest = false;
    for (int place = 0; place < top - 53; ++place) rest = rest || bit(place);
    if (bit(top - 53) && (rest || bit(top - 52))) significand += 1;
    return std::ldexp(significand, top - 52 - 300);
  }

 private:
  void add_square(float value) {
    int exponent = 0;
    const auto whole = static_cast<uint64_t>(std::abs(std::ldexp(std::frexp(value, &exponent), 24)));
    uint64_t square = whole * whole;
    // The lowest bits of a denormal number are zeros that would be below 2^-300.
    int place = 2 * (exponent - 24) + 300;
    for (; place < 0; place += 2) square /= 4;
    for (int k = 0; k < 48; ++k)
      if ((square >> k & 1) != 0) add_bit(place + k);
  }
  void add_bit(int place) {
    auto word = static_cast<size_t>(place / 32);
    words_[word] += 1u << place % 32;
    // The carry continues as long as words overflow.
    for (bool carries = words_[word] < 1u << place % 32; carries; carries = words_[word] == 0) ++words_[++word];
  }
  std::array<uint32_t, 20> words_ = {};
};

/// Values of all exponents in equal numbers: the bits of their magnitudes are drawn between these two.
std::vector<float> of_all_magnitudes(size_t count, uint32_t smallest = 0, uint32_t largest = 0x7f7fffff) {
  std::mt19937 random(static_cast<uint32_t>(count));
  std::vector<float> values(count);
  for (float& value : values) {
    const auto magnitude = static_cast<uint32_t>(smallest + random() % (largest - smallest + 1));
    value = std::bit_cast<float>(magnitude | static_cast<uint32_t>(random() & 0x80000000u));
  }
  return values;
}

class SquareSum : public ::testing::TestWithParam<DeviceRow> {
 protected:
  std::unique_ptr<Device> device_ = GetParam().open();

  Tensor row(const std::vector<float>& values) const {
    return tensor_of(*device_, {static_cast<int64_t>(values.size())}, values);
  }
  Numbers numbers_of(const Tensor& sum) const {
    Numbers numbers(static_cast<size_t>(sum.elements()));
    device_->download(numbers.data(), sum.data<double>(), sum.bytes());
    return numbers;
  }
  Numbers sum_of(const std::vector<float>& values) const { return numbers_of(ops::square_sum(row(values))); }

  void expect_exact(const std::vector<float>& values) const {
    SCOPED_TRACE(::testing::Message() << values.size() << " values");
    const LongSum expected(values);
    const Numbers got = sum_of(values);
    ASSERT_EQ(got.size(), 16u);
    for (int digit = 0; digit < 15; ++digit)
      EXPECT_EQ(got[static_cast<size_t>(digit)], expected.digit(digit)) << "digit " << digit;
    EXPECT_EQ(got[15], 0);
    EXPECT_EQ(ops::rounded_square_sum(got.data()), expected.rounded());
  }
};

TEST_P(SquareSum, IsExactOverAllMagnitudes) {
  for (const size_t count : {0u, 1u, 7u, 16u, 1000u, 1024u, 1031u, 20'001u}) expect_exact(of_all_magnitudes(count));
}

TEST_P(SquareSum, IsExactOverFewMagnitudes) {
  // Ranges of this many neighboring exponents, from f32's exponent 1 to 254.
  for (const uint32_t exponents : {1u, 2u, 12u, 24u, 25u, 40u, 60u, 100u})
    for (uint32_t first = 1; first + exponents <= 255; first += 38) {
      SCOPED_TRACE(::testing::Message() << exponents << " exponents from " << first);
      expect_exact(of_all_magnitudes(1500, first << 23, ((first + exponents) << 23) - 1));
    }
}

TEST_P(SquareSum, IsExactOfZerosAndDenormals) {
  expect_exact(std::vector<float>(5000, 0.f));
  expect_exact(of_all_magnitudes(5000, 0, 0x7fffff));
  expect_exact({std::numeric_limits<float>::denorm_min(), 0.f, -0.f, std::numeric_limits<float>::denorm_min(), 1.f});
}

TEST_P(SquareSum, IsExactOfTheLargestNumbers) {
  expect_exact(std::vector<float>(20'000, std::numeric_limits<float>::max()));
}

TEST_P(SquareSum, IsExactOfAMillionEqualNumbers) {
  const std::vector<float> values(1'000'000, 0.1f);
  // 24 bits squared, times 20.
  EXPECT_EQ(ops::rounded_square_sum(sum_of(values).data()),
            static_cast<double>(0.1f * static_cast<long double>(0.1f) * 1'000'000));
}

TEST_P(SquareSum, IsTheSameOfAnyCutsInAnyOrder) {
  std::vector<float> values = Formula{}.values(50'000);
  for (size_t i = 0; i < values.size(); i += 7) values[i] *= 1e-9f;
  const Numbers whole = sum_of(values);
  std::mt19937 random(1);
  for (const size_t parts : {2u, 5u, 64u}) {
    SCOPED_TRACE(parts);
    std::shuffle(values.begin(), values.end(), random);
    std::vector<size_t> cuts = {0, values.size()};
    while (cuts.size() <= parts) cuts.push_back(random() % values.size());
    std::ranges::sort(cuts);
    const Tensor in_turn = ops::no_squares(*device_);
    Numbers added(16);  // as a communicator adds
    for (size_t i = 0; i + 1 < cuts.size(); ++i) {
      const std::vector<float> part(values.begin() + static_cast<int64_t>(cuts[i]),
                                    values.begin() + static_cast<int64_t>(cuts[i + 1]));
      ops::add_squares(row(part), in_turn);
      const Numbers one = sum_of(part);
      std::ranges::transform(added, one, added.begin(), std::plus());
    }
    EXPECT_EQ(numbers_of(in_turn), whole);
    EXPECT_EQ(ops::rounded_square_sum(added.data()), ops::rounded_square_sum(whole.data()));
  }
}

TEST_P(SquareSum, SeesWhatIsNoNumberInAnyCut) {
  const std::vector<float> numbers = of_all_magnitudes(3000);
  const std::pair<std::vector<float>, float> cases[] = {{{kInfinity}, kInfinity},
                                                        {{-kInfinity}, kInfinity},
                                                        {{-kInfinity, kInfinity}, kInfinity},
                                                        {{kNan}, kNan},
                                                        {{kInfinity, kNan}, kNan}};
  for (const auto& [unlike, expected] : cases)
    for (const size_t at : {0u, 1500u, 2990u}) {
      std::vector<float> values = numbers;
      for (size_t k = 0; k < unlike.size(); ++k) values[at + k] = unlike[k];
      const Tensor apart = ops::square_sum(row({values.begin() + static_cast<int64_t>(at) + 1, values.end()}));
      ops::add_squares(row({values.begin(), values.begin() + static_cast<int64_t>(at) + 1}), apart);
      for (const Numbers& sum : {sum_of(values), numbers_of(apart)}) {
        const double got = ops::rounded_square_sum(sum.data());
        EXPECT_TRUE(std::isnan(expected) ? std::isnan(got) : got == expected) << got << ", expected " << expected;
      }
    }
}

INSTANTIATE_TEST_SUITE_P(Devices, SquareSum, ::testing::ValuesIn(device_rows()), RowName());

TEST(RoundedSquareSum, RoundsOnceAndTiesToEven) {
  const auto device = test_device(1);
  for (int exponent = -80; exponent <= 60; ++exponent) {
    SCOPED_TRACE(exponent);
    const float one = std::ldexp(1.f, exponent), little = std::ldexp(1.f, exponent - 27);
    const float least = std::ldexp(1.f, std::max(exponent - 60, -149));
    const auto rounded = [&](const std::vector<float>& values) {
      const Tensor sum = ops::square_sum(tensor_of(*device, {static_cast<int64_t>(values.size())}, values));
      return std::ldexp(ops::rounded_square_sum(sum.data<double>()), -2 * exponent);
    };
    // 1 + 2^-53 is in the middle between 1 and the next number; adding 2^-53 three times is in the middle between the
    // next two.
    EXPECT_EQ(rounded({one, little, little}), 1);
    EXPECT_EQ(rounded({one, little, little, least}), 1 + 0x1p-52);
    EXPECT_EQ(rounded({one, little, little, little, little, little, little}), 1 + 0x1p-51);
    EXPECT_EQ(rounded({one, little, least}), 1);
  }
}

/// As many ranks as digits of 40 bits leave room for in a double.
TEST(RoundedSquareSum, OfFourThousandRanksIsExact) {
  const auto device = test_device(1);
  const std::vector<float> values = of_all_magnitudes(1000);
  const Tensor sum = ops::square_sum(tensor_of(*device, {1000}, values));
  Numbers added(16);
  for (int rank = 0; rank < 4096; ++rank)
    for (int64_t k = 0; k < 16; ++k) added[static_cast<size_t>(k)] += sum.data<double>()[k];
  EXPECT_EQ(ops::rounded_square_sum(added.data()), 4096 * LongSum(values).rounded());
}

TEST(SquareSumOnCpus, IsTheSameForAnyNumberOfThreads) {
  const std::vector<float> values = of_all_magnitudes(100'003, 50u << 23, 130u << 23);
  std::vector<double> sums;
  for (const int threads : {1, 2, 3}) {
    const auto device = test_device(threads);
    const Tensor sum = ops::square_sum(tensor_of(*device, {100'003}, values));
    sums.push_back(ops::rounded_square_sum(sum.data<double>()));
  }
  EXPECT_EQ(sums, std::vector<double>(3, LongSum(values).rounded()));
}

}  // namespace square_sum_test
}  // namespace dptrain
