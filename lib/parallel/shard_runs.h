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

/// The shards that each of `ranks` ranks computes, in order. A rank's shards form whole subtrees of the tree of sums
/// over all shards, and the tree of sums over ranks is the rest of it. The result is then bit-identical for every
/// number of ranks, and a rank sends one sum, as it does without shards.
///
/// If shards / ranks is a power of two, all ranks have equally many shards. Otherwise some have more. Of 6 shards,
/// whose tree is ((0+1)+(2+3))+(4+5), two ranks have 4 and 2, because halves of 3 would need two sums each. Of 45
/// shards, the last of 9 ranks has 13, and the others have 4. A run is empty if a subtree has fewer shards than ranks,
/// as with 33 shards on 11 ranks.
///
/// `shards`: at least as many as ranks.
std::vector<ShardRun> shard_runs(int shards, int ranks);

}  // namespace dptrain::parallel
