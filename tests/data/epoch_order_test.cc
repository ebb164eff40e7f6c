#include "data/epoch_order.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace dptrain {
namespace {

std::vector<int64_t> counted(int64_t samples) { return epoch_order(samples, 0, 1, false); }

TEST(EpochOrder, WithoutShufflingItCounts) {
  EXPECT_EQ(counted(5), (std::vector<int64_t>{0, 1, 2, 3, 4}));
  EXPECT_TRUE(counted(0).empty());
}

TEST(EpochOrder, EverySampleComesOnce) {
  for (const int64_t samples : {0, 1, 2, 7, 1000, 8000}) {
    std::vector<int64_t> order = epoch_order(samples, 3, 2, true);
    std::sort(order.begin(), order.end());
    EXPECT_EQ(order, counted(samples));
  }
}

// Resuming a run under another version of the program relies on these.
TEST(EpochOrder, FirstValuesAreGolden) {
  std::vector<int64_t> order = epoch_order(8000, 0, 1, true);
  order.resize(6);
  EXPECT_EQ(order, (std::vector<int64_t>{4018, 3064, 6724, 5962, 7441, 4990}));
}

TEST(EpochOrder, DependsOnSeedAndEpochAlone) {
  const std::vector<int64_t> order = epoch_order(1000, 0, 1, true);
  EXPECT_EQ(epoch_order(1000, 0, 1, true), order);
  EXPECT_NE(epoch_order(1000, 0, 2, true), order);
  EXPECT_NE(epoch_order(1000, 1, 1, true), order);
  EXPECT_NE(counted(1000), order);
}

TEST(EpochOrder, PermutationsOfThreeAreEquallyLikely) {
  std::vector<std::vector<int64_t>> permutations;
  std::vector<int> seen(6);
  std::vector<int64_t> permutation = counted(3);
  do permutations.push_back(permutation);
  while (std::next_permutation(permutation.begin(), permutation.end()));
  for (int64_t epoch = 1; epoch <= 6000; ++epoch)
    ++seen[static_cast<size_t>(std::find(permutations.begin(), permutations.end(), epoch_order(3, 0, epoch, true)) -
                               permutations.begin())];
  // 1000 each, give or take five standard deviations of 29.
  for (const int count : seen) EXPECT_NEAR(count, 1000, 145);
}

}  // namespace
}  // namespace dptrain
