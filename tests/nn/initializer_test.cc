// Initial values of parameters: the bounds and deviations of each initializer, and what the values depend on.

#include "nn/initializer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace dptrain {
namespace {

using nn::Initializer;

const KeyedRandom kRandom(1, RandomPurpose::initialize, 0, 2);

double deviation_of(const std::vector<float>& values) {
  double mean = 0, square = 0;
  for (const float value : values) mean += value, square += double{value} * value;
  const auto count = static_cast<double>(values.size());
  return std::sqrt(square / count - std::pow(mean / count, 2));
}

float largest_of(const std::vector<float>& values) {
  float largest = 0;
  for (const float value : values) largest = std::max(largest, std::abs(value));
  return largest;
}

TEST(Initializer, Constant) {
  EXPECT_EQ(nn::initial_values(Initializer::constant(0.5), {2, 3}, kRandom), std::vector<float>(6, 0.5f));
}

TEST(Initializer, Normal) {
  const auto values = nn::initial_values(Initializer::normal(0.01), {100, 300}, kRandom);
  EXPECT_NEAR(deviation_of(values), 0.01, 2e-4);
  EXPECT_GT(largest_of(values), 0.03f);  // it has tails
}

TEST(Initializer, Uniform) {
  const auto values = nn::initial_values(Initializer::uniform(0.2), {100, 300}, kRandom);
  EXPECT_LE(largest_of(values), 0.2f);
  EXPECT_GT(largest_of(values), 0.199f);
  EXPECT_NEAR(deviation_of(values), 0.2 / std::sqrt(3.0), 2e-3);
  EXPECT_LT(*std::ranges::min_element(values), -0.199f);
}

TEST(Initializer, ByFanIn) {
  const Initializer initializer = Initializer::by_fan_in(16);
  EXPECT_EQ(initializer.kind, Initializer::Kind::uniform);
  EXPECT_DOUBLE_EQ(initializer.value, 0.25);
}

TEST(Initializer, KaimingNormalGoesByFanOut) {
  const Initializer kaiming{.kind = Initializer::Kind::kaiming_normal};
  // [O, C, K, K]: fan out is O * K * K.
  EXPECT_NEAR(deviation_of(nn::initial_values(kaiming, {64, 32, 3, 3}, kRandom)), std::sqrt(2.0 / (64 * 9)), 1e-3);
  EXPECT_NEAR(deviation_of(nn::initial_values(kaiming, {100, 300}, kRandom)), std::sqrt(2.0 / 100), 2e-3);
}

TEST(Initializer, XavierUniformGoesByBothFans) {
  const Initializer xavier{.kind = Initializer::Kind::xavier_uniform};
  const double bound = std::sqrt(6.0 / (64 * 9 + 32 * 9));
  const auto values = nn::initial_values(xavier, {64, 32, 3, 3}, kRandom);
  EXPECT_LE(largest_of(values), bound * 1.000001);
  EXPECT_GT(largest_of(values), 0.999 * bound);
  EXPECT_NEAR(largest_of(nn::initial_values(xavier, {100, 300}, kRandom)), std::sqrt(6.0 / 400), 1e-3);
}

TEST(Initializer, LecunNormalGoesByFanInAndHasNoTails) {
  const Initializer lecun{.kind = Initializer::Kind::lecun_normal};
  // [O, C, K, K]: fan in is C * K * K.
  const double deviation = std::sqrt(1.0 / (32 * 9)), cut = 2 * deviation / 0.87962566103423978;
  const auto values = nn::initial_values(lecun, {64, 32, 3, 3}, kRandom);
  EXPECT_NEAR(deviation_of(values), deviation, 0.02 * deviation);
  EXPECT_LE(largest_of(values), cut * 1.000001);
  EXPECT_GT(largest_of(values), 0.99 * cut);
  // Values beyond the cut are drawn again, not moved to the cut.
  EXPECT_LT(std::ranges::count_if(values, [&](float value) { return std::abs(value) > 0.999 * cut; }), 10);
  EXPECT_NEAR(deviation_of(nn::initial_values(lecun, {100, 300}, kRandom)), std::sqrt(1.0 / 300), 1e-3);
}

TEST(Initializer, EachElementDependsOnItsPositionAlone) {
  for (const Initializer& initializer : {Initializer::normal(1), Initializer::uniform(1)}) {
    const auto longer = nn::initial_values(initializer, {1000}, kRandom);
    const auto shorter = nn::initial_values(initializer, {10}, kRandom);
    EXPECT_TRUE(std::equal(shorter.begin(), shorter.end(), longer.begin()));
    const KeyedRandom other(1, RandomPurpose::initialize, 0, 3);
    EXPECT_NE(nn::initial_values(initializer, {10}, other), shorter);
  }
}

}  // namespace
}  // namespace dptrain
