// Which subtrees of the sum a process of a world can add up alone.
#include "comm/world_shape.h"

#include <gtest/gtest.h>

#include "support/expect_error.h"

namespace dptrain {
namespace {

using Runs = std::vector<RankRun>;

TEST(WorldShape, ProcessesHaveRunsOfRanksInOrder) {
  const WorldShape world({2, 4, 1});
  EXPECT_EQ(world.ranks(), 7);
  EXPECT_EQ(world.processes(), 3);
  EXPECT_EQ(world.ranks_of(1), (RankRun{2, 6}));
  EXPECT_EQ(world.process_of(1), 0);
  EXPECT_EQ(world.process_of(2), 1);
  EXPECT_EQ(world.process_of(6), 2);
}

TEST(WorldShape, WholeSubtreesAreThoseOfTheTreeOverAllRanks) {
  // The tree is ((0+1)+(2+3))+(4+5).
  const WorldShape halves({3, 3});
  EXPECT_EQ(halves.whole_subtrees(0), (Runs{{0, 2}, {2, 3}}));
  EXPECT_EQ(halves.whole_subtrees(1), (Runs{{3, 4}, {4, 6}}));
  const WorldShape uneven({2, 4});
  EXPECT_EQ(uneven.whole_subtrees(0), (Runs{{0, 2}}));
  EXPECT_EQ(uneven.whole_subtrees(1), (Runs{{2, 4}, {4, 6}}));
  EXPECT_EQ(WorldShape({4, 4}).whole_subtrees(1), (Runs{{4, 8}}));
  EXPECT_EQ(WorldShape({5}).whole_subtrees(0), (Runs{{0, 5}}));
}

TEST(WorldShape, ProcessesOfOneHostAreOneWhereTheyFollowOnEachOther) {
  const auto of_hosts = [](const std::vector<int>& processes, const std::vector<int64_t>& hosts) {
    const WorldShape joined = ranks_of_hosts(WorldShape(processes), hosts);
    std::vector<int> ranks;
    for (int host = 0; host < joined.processes(); ++host) ranks.push_back(joined.ranks_of(host).size());
    return ranks;
  };
  EXPECT_EQ(of_hosts({1, 1, 2, 1}, {7, 7, -3, -3}), (std::vector<int>{2, 3}));
  EXPECT_EQ(of_hosts({1, 1, 1, 1}, {7, 8, 7, 8}), (std::vector<int>{1, 1, 1, 1}));
  EXPECT_EQ(of_hosts({0, 2, 0, 2, 0}, {7, 8, 7, 8, 8}), (std::vector<int>{4}));
  EXPECT_EQ(of_hosts({40, 24, 1}, {7, 7, 7}), (std::vector<int>{64, 1})) << "as many as one process may have";
}

TEST(WorldShape, RanksThatAreNotThereAreOurBug) {
  testing::expect_error(ExitCode::bug, {"no rank 2 among 2"}, [] { WorldShape({1, 1}).process_of(2); });
  testing::expect_error(ExitCode::bug, {"without ranks"}, [] { WorldShape({0, 0}); });
}

}  // namespace
}  // namespace dptrain
