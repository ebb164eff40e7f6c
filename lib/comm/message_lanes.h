#pragma once

#include <compare>
#include <vector>

namespace dptrain {

/// Ranks of which the first sends messages to the second.
struct RankPair {
  int from = 0;
  int to = 0;

  bool has(int rank) const { return from == rank || to == rank; }
  auto operator<=>(const RankPair&) const = default;
};

struct NeighborOptions {
  bool around = false;  ///< a run's last rank and its first one are neighbors, too
};
/// Of runs of so many ranks each, which devices of pipelines are, what goes from each to its neighbors: forward through
/// a run, and back.
std::vector<RankPair> neighbor_pairs(int runs, int ranks, const NeighborOptions& options = {});

/// The pairs in lists in each of which a rank stands once at most, so that what a rank sends or receives in a list
/// waits for one other rank alone. Those that go from device to device of a pipeline and back need four such lists, or
/// two where there are two devices; all around an odd number of them six.
std::vector<std::vector<RankPair>> message_lanes(const std::vector<RankPair>& pairs);

}  // namespace dptrain
