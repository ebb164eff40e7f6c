#pragma once

#include <vector>

namespace dptrain::parallel {

/// Logical shards [begin, end) of a batch.
struct ShardRun {
  int begin = 0;
  int end = 0;

  int size() const { return end - begin; }
  bool operator==(const ShardRun&) const = default;
};

/// The shards that each of `ranks` ranks computes, in order: such that what a rank adds up is a whole subtree of the
/// tree of sums over all shards, and the tree of sums over ranks is what is left of it. Then any number of ranks ends
/// in the bits of one, and a rank sends one sum, as it does without shards.
///
/// Where shards / ranks is a power of two all have as many. Else some have more: of 6 shards, whose tree is
/// ((0+1)+(2+3))+(4+5), two ranks have 4 and 2, as halves of 3 would need sums of both; of 45 the last of 9 ranks has
/// 13, and the others 4. A run is empty where a subtree has fewer shards than ranks, as of 33 shards on 11 ranks.
///
/// `shards`: at least as many as ranks.
std::vector<ShardRun> shard_runs(int shards, int ranks);

}  // namespace dptrain::parallel
