#include "data/epoch_order.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace dptrain {
namespace {

std::vector<int64_t> counted(int64_t samples) { return epoch_order(samples, {0, 1, false}); }

TEST(EpochOrder, WithoutShufflingItCounts) {
  EXPECT_EQ(counted(5), (std::vector<int64_t>{0, 1, 2, 3, 4}));
  EXPECT_TRUE(counted(0).empty());
}

TEST(EpochOrder, EverySampleComesOnce) {
  for (const int64_t samples : {0, 1, 2, 7, 1000, 8000}) {
    std::vector<int64_t> order = epoch_order(samples, {3, 2, true});
    std::sort(order.begin(), order.end());
    EXPECT_EQ(order, counted(samples));
  }
}

// A run that another version of the program resumes relies on these values.
TEST(EpochOrder, FirstValuesAreGolden) {
  std::vector<int64_t> order = epoch_order(8000, {0, 1, true});
  order.resize(6);
  EXPECT_EQ(order, (std::vector<int64_t>{4018, 3064, 6724, 5962, 7441, 4990}));
}

TEST(EpochOrder, DependsOnSeedAndEpochAlone) {
  const std::vector<int64_t> order = epoch_order(1000, {0, 1, true});
  EXPECT_EQ(epoch_order(1000, {0, 1, true}), order);
  EXPECT_NE(epoch_order(1000, {0, 2, true}), order);
  EXPECT_NE(epoch_order(1000, {1, 1, true}), order);
  EXPECT_NE(counted(1000), order);
}

TEST(EpochOrder, PermutationsOfThreeAreEquallyLikely) {
  std::vector<std::vector<int64_t>> permutations;
  std::vector<int> seen(6);
  std::vector<int64_t> permutation = counted(3);
  do permutations.push_back(permutation);
  while (std::next_permutation(permutation.begin(), permutation.end()));
  for (int64_t epoch = 1; epoch <= 6000; ++epoch)
    ++seen[static_cast<size_t>(std::find(permutations.begin(), permutations.end(), epoch_order(3, {0, epoch, true})) -
                               permutations.begin())];
  // 1000 each, within five standard deviations of 29.
  for (const int count : seen) EXPECT_NEAR(count, 1000, 145);
}

/// The samples, of 0 to samples - 1, on which each process trains in an epoch, in its order.
std::vector<std::vector<int64_t>> by_process(int64_t samples, const BatchShares& shares, const EpochKey& key) {
  const std::vector<int64_t> order = partitioned_epoch_order(samples, shares, key);
  std::vector<std::vector<int64_t>> seen(shares.parts_of_processes.size());
  for (int64_t first = 0; first < samples; first += shares.batch_size) {
    const int64_t batch = std::min(shares.batch_size, samples - first);
    for (int64_t m = 0; m < shares.micro_batches; ++m) {
      const int64_t begin = m * batch / shares.micro_batches, end = (m + 1) * batch / shares.micro_batches;
      int part = 0;
      for (size_t process = 0; process < seen.size(); ++process)
        for (int i = 0; i < shares.parts_of_processes[process]; ++i, ++part) {
          const auto [from, to] = shares.split.range(part, end - begin);
          seen[process].insert(seen[process].end(), order.begin() + first + begin + from,
                               order.begin() + first + begin + to);
        }
    }
  }
  return seen;
}

TEST(PartitionedEpochOrder, EachProcessHasAContiguousPartShuffledInside) {
  // Batches and parts that don't divide the samples evenly, and a process without devices.
  for (const int64_t micro_batches : {1, 2}) {
    const BatchShares shares{
        .batch_size = 9, .micro_batches = micro_batches, .split = BatchSplit::even(4), .parts_of_processes = {1, 0, 3}};
    const auto first = by_process(104, shares, {5, 1, true}), second = by_process(104, shares, {5, 2, true});
    int64_t begin = 0;
    for (size_t process = 0; process < first.size(); ++process) {
      std::vector<int64_t> part(first[process].size());
      for (int64_t& sample : part) sample = begin++;
      EXPECT_TRUE(std::is_permutation(first[process].begin(), first[process].end(), part.begin(), part.end()));
      EXPECT_TRUE(std::is_permutation(second[process].begin(), second[process].end(), part.begin(), part.end()));
      EXPECT_EQ(part.empty(), process == 1);
      EXPECT_EQ(first[process] == part, part.empty());
      EXPECT_EQ(first[process] == second[process], part.empty());
    }
    EXPECT_EQ(begin, 104);
  }
}

TEST(PartitionedEpochOrder, PartsAreShuffledDifferently) {
  const BatchShares shares{.batch_size = 10, .split = BatchSplit::even(2), .parts_of_processes = {1, 1}};
  auto parts = by_process(200, shares, {5, 1, true});
  for (int64_t& sample : parts[1]) sample -= 100;
  EXPECT_NE(parts[0], parts[1]);
}

TEST(PartitionedEpochOrder, OfOneProcessIsThatOfAllSamples) {
  const BatchShares shares{.batch_size = 7, .split = BatchSplit::even(2), .parts_of_processes = {2}};
  EXPECT_EQ(partitioned_epoch_order(50, shares, {5, 3, true}), epoch_order(50, {5, 3, true}));
}

}  // namespace
}  // namespace dptrain
