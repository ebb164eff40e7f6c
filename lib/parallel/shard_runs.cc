#include "parallel/shard_runs.h"

#include "base/check.h"
#include "comm/tree_sum.h"

namespace dptrain::parallel {
namespace {

/// Appends the runs of `ranks` ranks that share a subtree.
void deal(const ShardRun& subtree, int ranks, std::vector<ShardRun>& runs) {
  if (ranks == 1 || subtree.size() <= 1) {
    runs.push_back(subtree);
    runs.resize(runs.size() + static_cast<size_t>(ranks - 1), {subtree.end, subtree.end});
    return;
  }
  // Both trees put the largest power of two below their size on the left. For shards that power is at least as large as
  // for ranks, so only the right side can have fewer shards than ranks.
  const int left_ranks = tree_left_ranks(ranks), middle = subtree.begin + tree_left_ranks(subtree.size());
  deal({subtree.begin, middle}, left_ranks, runs);
  deal({middle, subtree.end}, ranks - left_ranks, runs);
}

}  // namespace

std::vector<ShardRun> shard_runs(int shards, int ranks) {
  DPTRAIN_CHECK(1 <= ranks && ranks <= shards, "{} shards for {} ranks", shards, ranks);
  std::vector<ShardRun> runs;
  deal({0, shards}, ranks, runs);
  return runs;
}

}  // namespace dptrain::parallel
