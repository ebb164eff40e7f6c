#include "comm/message_lanes.h"

#include <algorithm>

namespace dptrain {

std::vector<RankPair> neighbor_pairs(int runs, int ranks, const NeighborOptions& options) {
  std::vector<RankPair> pairs;
  for (int first = 0; first < runs * ranks; first += ranks) {
    for (int rank = first; rank + 1 < first + ranks; ++rank) pairs.push_back({rank, rank + 1});
    for (int rank = first; rank + 1 < first + ranks; ++rank) pairs.push_back({rank + 1, rank});
    if (!options.around || ranks < 3) continue;
    const int last = first + ranks - 1;
    pairs.push_back({last, first});
    pairs.push_back({first, last});
  }
  return pairs;
}

std::vector<std::vector<RankPair>> message_lanes(const std::vector<RankPair>& pairs) {
  std::vector<std::vector<RankPair>> lanes;
  for (const RankPair& pair : pairs) {
    const auto is_free = [&](const std::vector<RankPair>& lane) {
      return std::ranges::none_of(lane,
                                  [&](const RankPair& other) { return other.has(pair.from) || other.has(pair.to); });
    };
    auto lane = std::ranges::find_if(lanes, is_free);
    if (lane == lanes.end()) lane = lanes.emplace(lanes.end());
    lane->push_back(pair);
  }
  return lanes;
}

}  // namespace dptrain
