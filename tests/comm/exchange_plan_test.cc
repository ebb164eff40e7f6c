// How many bytes each operation sends between processes.
#include "comm/exchange_plan.h"

#include <gtest/gtest.h>

namespace dptrain {
namespace {

/// The bytes of one process in an operation whose ranks have `elements` elements each.
struct Planned {
  int64_t sent_bytes = 0;
  int64_t received_bytes = 0;
  size_t rounds = 0;
};

Planned planned(CommKind kind, const WorldShape& world, int process, int64_t elements, DType dtype = DType::f32) {
  std::vector<float> memory(static_cast<size_t>(elements * world.ranks()));
  const CommBuffer one{.data = memory.data(), .elements = elements, .dtype = dtype};
  const CommBuffer all{.data = memory.data(), .elements = elements * world.ranks(), .dtype = dtype};
  CommCall call{.kind = kind, .in = one, .out = one, .other = 0};
  if (kind == CommKind::reduce_scatter) call.in = all;
  if (kind == CommKind::all_gather) call.out = all;
  const std::vector<CommCall> calls(static_cast<size_t>(world.ranks_of(process).size()), call);
  const auto pool = StagingPool::make();
  Planned result;
  const ExchangePlan plan = plan_exchange(calls, world, process, *pool);
  for (const ExchangeStage& stage : plan.stages) {
    for (const ExchangeMessage& message : stage.messages)
      (message.sends ? result.sent_bytes : result.received_bytes) += message.bytes;
    result.rounds += stage.messages.empty() ? 0 : 1;
  }
  return result;
}

constexpr int64_t kLarge = 1 << 20;

TEST(ExchangePlan, AllReduceSendsAsMuchAsARing) {
  for (const int processes : {4, 8}) {
    const WorldShape world(std::vector<int>(static_cast<size_t>(processes), 2));
    int64_t sent = 0, received = 0;
    for (int p = 0; p < processes; ++p) {
      const Planned plan = planned(CommKind::all_reduce, world, p, kLarge);
      EXPECT_EQ(plan.rounds, 2u);
      sent += plan.sent_bytes;
      received += plan.received_bytes;
    }
    // Ranks first add up within their process: two ranks of a process send as much as one.
    EXPECT_EQ(sent, 2 * (processes - 1) * 4 * kLarge);
    EXPECT_EQ(received, sent);
  }
}

TEST(ExchangePlan, TwoProcessesAndSmallBuffersTakeOneRound) {
  EXPECT_EQ(planned(CommKind::all_reduce, WorldShape({2, 2}), 0, kLarge).rounds, 1u);
  EXPECT_EQ(planned(CommKind::all_reduce, WorldShape({2, 2}), 0, kLarge).sent_bytes, 4 * kLarge);
  EXPECT_EQ(planned(CommKind::all_reduce, WorldShape({1, 1, 1, 1}), 2, 100).rounds, 1u);
  // Each process has two subtrees; sending them in parts takes fewer bytes.
  EXPECT_EQ(planned(CommKind::all_reduce, WorldShape({3, 3}), 0, kLarge).sent_bytes, 3 * 4 * kLarge / 2);
}

TEST(ExchangePlan, SixteenBitsStaySoWhereNothingIsAddedBefore) {
  EXPECT_EQ(planned(CommKind::all_reduce, WorldShape({1, 1}), 0, kLarge, DType::bf16).sent_bytes, 2 * kLarge);
  // The sum over two ranks is sent in f32, and the result in bf16.
  EXPECT_EQ(planned(CommKind::all_reduce, WorldShape({2, 2}), 0, kLarge, DType::bf16).sent_bytes, 2 * kLarge + kLarge);
}

TEST(ExchangePlan, OtherOperationsSendWhatOthersNeedAlone) {
  const WorldShape world({2, 2, 2, 2});
  EXPECT_EQ(planned(CommKind::reduce, world, 1, kLarge).sent_bytes, 4 * kLarge);
  EXPECT_EQ(planned(CommKind::reduce, world, 0, kLarge).sent_bytes, 0);
  EXPECT_EQ(planned(CommKind::broadcast, world, 0, kLarge).sent_bytes, 3 * 4 * kLarge);
  EXPECT_EQ(planned(CommKind::broadcast, world, 3, kLarge).sent_bytes, 0);
  EXPECT_EQ(planned(CommKind::reduce_scatter, world, 2, 1000).sent_bytes, 6 * 4 * 1000);
  EXPECT_EQ(planned(CommKind::all_gather, world, 2, 1000).sent_bytes, 3 * 2 * 4 * 1000);
  EXPECT_EQ(planned(CommKind::barrier, world, 0, 0).rounds, 2u);
}

}  // namespace
}  // namespace dptrain
