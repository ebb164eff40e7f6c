#include "data/batch_split.h"

#include <gtest/gtest.h>

namespace dptrain {
namespace {

std::vector<int64_t> sizes(const BatchSplit& split, int64_t samples) {
  std::vector<int64_t> sizes;
  int64_t next = 0;
  for (int part = 0; part < split.parts(); ++part) {
    const auto [begin, end] = split.range(part, samples);
    EXPECT_EQ(begin, next) << "parts follow each other";
    sizes.push_back(end - begin);
    next = end;
  }
  EXPECT_EQ(next, samples) << "every sample is in one";
  return sizes;
}

TEST(BatchSplit, EvenPartsDifferByOneSampleAtMost) {
  EXPECT_EQ(sizes(BatchSplit::even(3), 64), (std::vector<int64_t>{21, 21, 22}));
  EXPECT_EQ(sizes(BatchSplit::even(4), 2), (std::vector<int64_t>{0, 1, 0, 1}));
  EXPECT_EQ(sizes(BatchSplit::even(1), 0), (std::vector<int64_t>{0}));
  EXPECT_TRUE(BatchSplit::even(3).is_even());
}

TEST(BatchSplit, WeightsAreKeptExactlyWhereSamplesDivide) {
  EXPECT_EQ(sizes(BatchSplit::weighted({0.7, 0.3}), 10), (std::vector<int64_t>{7, 3}));
  EXPECT_EQ(sizes(BatchSplit::weighted({0.1, 0.2, 0.7}), 1000), (std::vector<int64_t>{100, 200, 700}));
  EXPECT_EQ(sizes(BatchSplit::weighted({1, 2}), 3), (std::vector<int64_t>{1, 2})) << "they needn't add up to one";
  EXPECT_EQ(sizes(BatchSplit::weighted({0.123456, 0.876544}), 1'000'000), (std::vector<int64_t>{123'456, 876'544}))
      << "to a millionth, as measured ones are";
  EXPECT_FALSE(BatchSplit::weighted({1, 2}).is_even());
}

TEST(BatchSplit, APartOfNoWeightHasNoSamples) {
  for (const int64_t samples : {0, 1, 7, 1000})
    EXPECT_EQ(sizes(BatchSplit::weighted({0, 1, 0}), samples), (std::vector<int64_t>{0, samples, 0}));
}

}  // namespace
}  // namespace dptrain
