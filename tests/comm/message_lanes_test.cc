#include "comm/message_lanes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <tuple>

namespace dptrain {
namespace {

using Pairs = std::vector<RankPair>;

TEST(NeighborPairs, GoForwardThroughEachRunAndBack) {
  EXPECT_EQ(neighbor_pairs(2, 3), (Pairs{{0, 1}, {1, 2}, {1, 0}, {2, 1}, {3, 4}, {4, 5}, {4, 3}, {5, 4}}));
  EXPECT_TRUE(neighbor_pairs(3, 1).empty());
  EXPECT_EQ(neighbor_pairs(1, 3, {.around = true}), (Pairs{{0, 1}, {1, 2}, {1, 0}, {2, 1}, {2, 0}, {0, 2}}));
  EXPECT_EQ(neighbor_pairs(2, 2, {.around = true}), neighbor_pairs(2, 2)) << "two are neighbors anyway";
}

TEST(MessageLanes, HaveEveryPairOnceAndNoRankTwice) {
  for (const auto& [replicas, stages, around] : {std::tuple(1, 2, false),
                                                 {3, 2, true},
                                                 {1, 3, false},
                                                 {1, 3, true},
                                                 {2, 4, false},
                                                 {2, 4, true},
                                                 {1, 8, false},
                                                 {5, 7, false},
                                                 {5, 7, true}}) {
    const Pairs pairs = neighbor_pairs(replicas, stages, {.around = around});
    Pairs all;
    for (const Pairs& lane : message_lanes(pairs)) {
      std::vector<int> ranks;
      for (const RankPair& pair : lane) {
        ranks.insert(ranks.end(), {pair.from, pair.to});
        all.push_back(pair);
      }
      std::ranges::sort(ranks);
      EXPECT_EQ(std::ranges::adjacent_find(ranks), ranks.end()) << replicas << " x " << stages;
    }
    std::ranges::sort(all);
    EXPECT_TRUE(std::ranges::is_permutation(all, pairs)) << replicas << " x " << stages;
  }
}

TEST(MessageLanes, OfPipelinesAreFewHoweverLongTheyAre) {
  EXPECT_TRUE(message_lanes({}).empty());
  for (const int replicas : {1, 2, 9}) {
    EXPECT_EQ(message_lanes(neighbor_pairs(replicas, 2)).size(), 2u);
    for (const int stages : {3, 4, 5, 8, 33})
      EXPECT_EQ(message_lanes(neighbor_pairs(replicas, stages)).size(), 4u) << replicas << " x " << stages;
    for (const int devices : {3, 4, 5, 8, 33})
      EXPECT_EQ(message_lanes(neighbor_pairs(replicas, devices, {.around = true})).size(), devices % 2 == 0 ? 4u : 6u)
          << replicas << " x " << devices << ", all around";
  }
}

}  // namespace
}  // namespace dptrain
