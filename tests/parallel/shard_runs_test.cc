// Which logical shards a rank computes: a whole subtree of the sum over all shards, so that sums over ranks complete
// the tree.
#include "parallel/shard_runs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "comm/tree_sum.h"

namespace dptrain::parallel {
namespace shard_runs_test {

/// The tree of sums over [begin, end) as text: "((0+1)+2)".
std::string tree(int begin, int end) {
  if (end - begin == 1) return std::to_string(begin);
  const int middle = begin + tree_left_ranks(end - begin);
  return "(" + tree(begin, middle) + "+" + tree(middle, end) + ")";
}

/// The tree of sums over ranks [first, last], where each rank has added up its own run.
std::string tree_of(const std::vector<ShardRun>& runs, int first, int last) {
  if (last - first == 1) {
    const ShardRun& run = runs[static_cast<size_t>(first)];
    return tree(run.begin, run.end);
  }
  const int middle = first + tree_left_ranks(last - first);
  return "(" + tree_of(runs, first, middle) + "+" + tree_of(runs, middle, last) + ")";
}

TEST(ShardRuns, MakeSumsOverRanksTheTreeOverShards) {
  for (int shards = 1; shards <= 64; ++shards) {
    for (int ranks = 1; ranks <= shards; ++ranks) {
      const auto runs = shard_runs(shards, ranks);
      ASSERT_EQ(runs.size(), static_cast<size_t>(ranks));
      EXPECT_EQ(runs.back().end, shards);
      if (std::ranges::any_of(runs, [](const ShardRun& run) { return run.size() == 0; })) continue;
      EXPECT_EQ(tree_of(runs, 0, ranks), tree(0, shards)) << shards << " shards, " << ranks << " ranks";
    }
  }
}

TEST(ShardRuns, AreEvenWhereTheTreeAllows) {
  for (const int ranks : {1, 2, 3, 5, 6, 7, 8})
    for (const int each : {1, 2, 4, 8})
      for (const ShardRun& run : shard_runs(ranks * each, ranks)) EXPECT_EQ(run.size(), each);
  EXPECT_EQ(shard_runs(6, 2), (std::vector<ShardRun>{{0, 4}, {4, 6}}));
  EXPECT_EQ(shard_runs(45, 9).front(), (ShardRun{0, 4}));
  EXPECT_EQ(shard_runs(45, 9).back(), (ShardRun{32, 45}));
  EXPECT_EQ(shard_runs(12, 4), (std::vector<ShardRun>{{0, 4}, {4, 8}, {8, 10}, {10, 12}}));
}

TEST(ShardRuns, OfUpToTenRanksThatDivideThemNoneIsEmpty) {
  for (int ranks = 1; ranks <= 10; ++ranks)
    for (int shards = ranks; shards <= 1024; shards += ranks)
      for (const ShardRun& run : shard_runs(shards, ranks))
        EXPECT_GE(run.size(), 1) << shards << " shards, " << ranks << " ranks";
  EXPECT_EQ(shard_runs(33, 11).back().size(), 0);
}

}  // namespace shard_runs_test
}  // namespace dptrain::parallel
