// Worlds of thousands of ranks.
#include "comm/communicator_fixture.h"
#include "comm/process_group.h"
#include "comm/tree_sum.h"

namespace dptrain {
namespace {

/// Processes of 64 ranks, whose operations one thread starts.
TEST(LargeWorlds, ThousandsOfRanksSum) {
  RankList ranks = communicators_of_processes(std::vector<int>(33, kMostRanksOfProcess), /*timeout_s=*/120);
  const auto size = static_cast<int32_t>(ranks.size());
  std::vector<std::vector<int32_t>> values;
  for (int32_t rank = 0; rank < size; ++rank) values.push_back({rank, 1});
  std::vector<std::unique_ptr<CommWork>> works;
  for (size_t rank = 0; rank < ranks.size(); ++rank)
    works.push_back(ranks[rank]->start_all_reduce(buffer_of(values[rank])));
  for (const auto& work : works) work->wait();
  for (const auto& sums : values) ASSERT_EQ(sums, std::vector<int32_t>({size * (size - 1) / 2, size}));
}

/// The most processes that a world can have, with one rank each.
TEST(LargeWorlds, AProcessAddsUpWhatAllOthersSend) {
  constexpr int kProcesses = kMostRanks;
  std::vector<int32_t> value = {1};
  const CommBuffer buffer = buffer_of(value);
  const CommCall call{.kind = CommKind::all_reduce, .in = buffer, .out = buffer};
  const auto pool = StagingPool::make();
  const ExchangePlan plan = plan_exchange(std::span(&call, 1), WorldShape(std::vector<int>(kProcesses, 1)), 5, *pool);
  ASSERT_EQ(plan.stages.size(), 2u);
  for (const ExchangeMessage& message : plan.stages[0].messages)
    if (!message.sends) *static_cast<int32_t*>(message.data) = 3;
  ASSERT_EQ(plan.stages[1].sums.size(), 1u);
  plan.stages[1].sums[0].run(0, 1);
  EXPECT_EQ(value[0], 1 + 3 * (kProcesses - 1));
}

/// Processes agree without a sum over ranks, so the limit on ranks doesn't apply.
TEST(LargeWorlds, AGroupMayHaveMoreProcesses) {
  constexpr int kProcesses = kMostRanks + 100;
  ProcessExchange exchange(MemoryWires::make(kProcesses).front());
  EXPECT_EQ(ProcessGroup(exchange, /*timeout_s=*/1).processes(), kProcesses);
}

}  // namespace
}  // namespace dptrain
