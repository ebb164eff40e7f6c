// What random numbers depend on, and how they are distributed. The draws are fixed by their keys, so that a bound of a
// few standard errors can't fail by chance.

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <functional>
#include <set>
#include <vector>

#include "base/random.h"

namespace dptrain {
namespace {

constexpr int kDraws = 100'000;

struct Moments {
  double mean = 0, variance = 0, fourth = 0;  ///< fourth: the central moment over the variance's square
};

Moments moments_of(const std::function<double(uint64_t)>& draw) {
  std::vector<double> values(kDraws);
  Moments moments;
  for (size_t i = 0; i < values.size(); ++i) moments.mean += values[i] = draw(i);
  moments.mean /= kDraws;
  for (const double value : values) {
    const double square = std::pow(value - moments.mean, 2);
    moments.variance += square / kDraws;
    moments.fourth += square * square / kDraws;
  }
  moments.fourth /= moments.variance * moments.variance;
  return moments;
}

TEST(KeyedRandom, EveryPartOfTheKeyMatters) {
  const auto base = KeyedRandom(1, RandomPurpose::shuffle, 2, 3).words(4);
  EXPECT_EQ(KeyedRandom(1, RandomPurpose::shuffle, 2, 3).words(4), base);
  EXPECT_NE(KeyedRandom(2, RandomPurpose::shuffle, 2, 3).words(4), base);
  EXPECT_NE(KeyedRandom(1, RandomPurpose::dropout, 2, 3).words(4), base);
  EXPECT_NE(KeyedRandom(1, RandomPurpose::shuffle, 3, 3).words(4), base);
  EXPECT_NE(KeyedRandom(1, RandomPurpose::shuffle, 2, 4).words(4), base);
  EXPECT_NE(KeyedRandom(1, RandomPurpose::shuffle, 2, 3).words(5), base);
  EXPECT_NE(KeyedRandom(1, RandomPurpose::shuffle, 2, 3).words(4 + (uint64_t{1} << 32)), base);
}

// The key is splitmix64(splitmix64(seed) ^ purpose), the counter (block, subject, epoch): part of every result.
TEST(KeyedRandom, NeverChanges) {
  using Words = std::array<uint32_t, 4>;
  EXPECT_EQ(KeyedRandom(1, RandomPurpose::shuffle, 2, 3).words(4),
            (Words{0x8ff29dbb, 0x8114b967, 0xfbd68c46, 0x97a61ca2}));
  EXPECT_EQ(KeyedRandom(42, RandomPurpose::dropout, 0, 7).words((uint64_t{1} << 40) + 5),
            (Words{0x4cfee717, 0xebe8d578, 0x7461736, 0x15df9d}));
}

TEST(KeyedRandom, WordsComeFromTheirBlocks) {
  const KeyedRandom random(7, RandomPurpose::synthetic, 0, 9);
  for (uint64_t position = 0; position < 20; ++position)
    EXPECT_EQ(random.word(position), random.words(position / 4)[position % 4]);
}

TEST(KeyedRandom, UniformsFillTheUnitInterval) {
  const KeyedRandom random(0, RandomPurpose::synthetic, 0, 0);
  double least = 1, most = 0;
  const Moments moments = moments_of([&](uint64_t i) {
    const double value = random.uniform(i);
    least = std::min(least, value);
    most = std::max(most, value);
    return value;
  });
  EXPECT_GE(least, 0);
  EXPECT_LT(most, 1);
  EXPECT_LT(least, 1e-4);
  EXPECT_GT(most, 1 - 1e-4);
  // Three standard errors of 100,000 draws.
  EXPECT_NEAR(moments.mean, 0.5, 3 * std::sqrt(1.0 / 12 / kDraws));
  EXPECT_NEAR(moments.variance, 1.0 / 12, 3 * std::sqrt(1.0 / 180 / kDraws));
}

TEST(KeyedRandom, NormalsHaveTheMomentsOfTheBell) {
  const KeyedRandom random(3, RandomPurpose::initialize, 0, 17);
  const Moments moments = moments_of([&](uint64_t i) { return random.normal(i); });
  EXPECT_NEAR(moments.mean, 0, 3 * std::sqrt(1.0 / kDraws));
  EXPECT_NEAR(moments.variance, 1, 3 * std::sqrt(2.0 / kDraws));
  EXPECT_NEAR(moments.fourth, 3, 3 * std::sqrt(24.0 / kDraws));
  double neighbours = 0;
  for (uint64_t i = 0; i < kDraws; ++i) neighbours += double{random.normal(i)} * random.normal(i + 1);
  EXPECT_NEAR(neighbours / kDraws, 0, 3 / std::sqrt(kDraws));
}

TEST(KeyedRandom, NeighbouringKeysAreUncorrelated) {
  for (const auto& [a, b] :
       {std::pair(KeyedRandom(1, RandomPurpose::dropout, 0, 0), KeyedRandom(2, RandomPurpose::dropout, 0, 0)),
        std::pair(KeyedRandom(1, RandomPurpose::dropout, 0, 0), KeyedRandom(1, RandomPurpose::dropout, 0, 1))}) {
    double product = 0;
    for (uint64_t i = 0; i < kDraws; ++i) product += (a.uniform(i) - 0.5) * (b.uniform(i) - 0.5);
    EXPECT_NEAR(product / kDraws * 12, 0, 3 / std::sqrt(kDraws));
  }
}

TEST(KeyedRandom, BelowIsBoundedAndEven) {
  const KeyedRandom random(5, RandomPurpose::shuffle, 0, 0);
  constexpr uint32_t kBound = 10;
  std::vector<int> counts(kBound);
  for (uint64_t i = 0; i < kDraws; ++i) ++counts.at(random.below(i, kBound));
  for (const int count : counts) EXPECT_NEAR(count, kDraws / kBound, 4 * std::sqrt(kDraws * 0.1 * 0.9));
  EXPECT_EQ(random.below(0, 1), 0u);
  std::set<uint32_t> large;
  for (uint64_t i = 0; i < 100; ++i) large.insert(random.below(i, ~0u));
  EXPECT_EQ(large.size(), 100u);
}

}  // namespace
}  // namespace dptrain
