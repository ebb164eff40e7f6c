#pragma once

#include <compare>
#include <vector>

namespace dptrain {

/// Two ranks: `from` sends messages to `to`.
struct RankPair {
  int from = 0;
  int to = 0;

  bool has(int rank) const { return from == rank || to == rank; }
  auto operator<=>(const RankPair&) const = default;
};

struct NeighborOptions {
  bool around = false;  ///< the last rank and the first rank of a run are neighbors, too
};
/// The pairs of neighbors in `runs` runs of `ranks` ranks each, forward through a run and back. The devices of a
/// pipeline are such a run.
std::vector<RankPair> neighbor_pairs(int runs, int ranks, const NeighborOptions& options = {});

/// Divides the pairs into lists in which each rank occurs at most once. So what a rank sends or receives in a list
/// waits for one other rank only. The pairs of a pipeline, forward and back, need four lists, or two if it has two
/// devices. With `around`, an odd number of devices needs six.
std::vector<std::vector<RankPair>> message_lanes(const std::vector<RankPair>& pairs);

}  // namespace dptrain
