#include "plan/step_times.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include "plan/logged_calls.h"
#include "support/expect_error.h"

namespace dptrain {
namespace {

using plan::CallTimes;
using plan::DeviceFigures;
using plan::OperatorEstimates;
using plan::PlannedRank;
using plan::PlannedStep;
using testing::call_of;
using testing::message_of;
using testing::unit_figures;

/// Ranks that compute for these seconds, operator by operator, and make these calls.
PlannedStep step_of(const std::vector<std::vector<double>>& seconds, const CallLog& calls) {
  PlannedStep step{.world_size = static_cast<int>(seconds.size()), .batch_samples = 1, .ranks = {}, .store = {}};
  for (const auto& of_rank : seconds) {
    PlannedRank rank;
    for (const double each : of_rank) rank.operators.push_back({.name = "linear", .flops = each});
    rank.calls = calls;
    // Each call is awaited only when all calls that are started by then have been started.
    for (LoggedCall& call : rank.calls)
      call.awaited_calls = static_cast<size_t>(std::ranges::count_if(
          calls, [&](const LoggedCall& other) { return other.started_after <= call.awaited_after; }));
    step.ranks.push_back(rank);
  }
  return step;
}

plan::StepTimes times_of(const PlannedStep& step, const plan::Calibration& calibration = {}) {
  const DeviceFigures figures = unit_figures();
  const OperatorEstimates estimates(figures, Precision::fp32);
  CallTimes calls({.world = WorldShape({static_cast<int>(step.ranks.size())}), .devices = {}, .figures = figures});
  return plan::step_times({.step = step, .estimates = estimates, .calibration = calibration, .calls = calls});
}

// An all-reduce of B bytes over two ranks has two rounds and sends 2 (N - 1) / N B = B bytes.
constexpr double all_reduce_s(double bytes) { return 2 + bytes; }

TEST(StepTimes, ComputeAloneTakesAsLongAsItsOperators) {
  const auto times = times_of(step_of({{3, 4}}, {}));
  EXPECT_DOUBLE_EQ(times.step_s, 7);
  EXPECT_DOUBLE_EQ(times.ranks[0].exposed_comm_s, 0);
}

TEST(StepTimes, WhatIsAwaitedAtOnceIsExposedWhole) {
  const auto times = times_of(step_of({{3, 4}, {3, 4}}, {call_of(CommKind::all_reduce, 8, 1, 1)}));
  EXPECT_DOUBLE_EQ(times.comm_s, all_reduce_s(8));
  EXPECT_DOUBLE_EQ(times.ranks[0].exposed_comm_s, all_reduce_s(8));
  EXPECT_DOUBLE_EQ(times.step_s, 7 + all_reduce_s(8));
}

TEST(StepTimes, ACallHidesBehindWhatIsComputedMeanwhile) {
  const auto times = times_of(step_of({{3, 4, 5}, {3, 4, 5}}, {call_of(CommKind::all_reduce, 4, 1, 2)}));
  // The sum takes six seconds, and the second operator hides four of them.
  EXPECT_DOUBLE_EQ(times.ranks[0].exposed_comm_s, 2);
  EXPECT_DOUBLE_EQ(times.step_s, 14);
}

TEST(StepTimes, CallsFollowOnEachOther) {
  // Both calls are started early; the second begins when the first has ended, at 1 + 12.
  const auto times = times_of(step_of(
      {{1, 1, 1}, {1, 1, 1}}, {call_of(CommKind::all_reduce, 10, 1, 3), call_of(CommKind::all_reduce, 10, 2, 3)}));
  EXPECT_DOUBLE_EQ(times.step_s, 1 + 2 * all_reduce_s(10));
}

TEST(StepTimes, ACollectiveWaitsForTheSlowestRank) {
  const auto times = times_of(step_of({{1, 1}, {10, 1}}, {call_of(CommKind::all_reduce, 0, 1, 1)}));
  EXPECT_DOUBLE_EQ(times.ranks[0].exposed_comm_s, 9 + all_reduce_s(0));
  EXPECT_DOUBLE_EQ(times.ranks[1].exposed_comm_s, all_reduce_s(0));
  EXPECT_DOUBLE_EQ(times.step_s, 11 + all_reduce_s(0));
}

TEST(StepTimes, AreScaledByACalibration) {
  const auto times = times_of(step_of({{3, 4}}, {}), {.compute_factor = 2, .host_s = 0.5});
  EXPECT_DOUBLE_EQ(times.ranks[0].compute_s, 14);
  EXPECT_DOUBLE_EQ(times.step_s, 14.5);
}

TEST(StepTimes, AReceiverWaitsForTheSenderAndTheLink) {
  PlannedStep step = step_of({{3, 2}, {1, 4}}, {});
  step.ranks[0].calls = {message_of(CommKind::send, 0, 1, 1)};
  step.ranks[1].calls = {message_of(CommKind::receive, 1, 0, 1)};
  const auto times = times_of(step);
  // The message of 4 bytes is sent at 3; the receiver has computed for a second and waits for it.
  EXPECT_DOUBLE_EQ(times.ranks[1].exposed_comm_s, 2 + 1 + 4);
  EXPECT_DOUBLE_EQ(times.step_s, 3 + 1 + 4 + 4);
}

/// A stage sends gradients back and receives the next ones. It waits for an older message behind a younger one.
TEST(StepTimes, WaitsComeInTheOrderOfWhatIsComputedBetween) {
  PlannedStep step = step_of({{3, 2, 1}, {1, 4, 2}}, {});
  LoggedCall sent = message_of(CommKind::send, 0, 1, 1), received = message_of(CommKind::receive, 0, 1, 1);
  sent.awaited_after = 2;
  received.awaited_after = 1;
  sent.awaited_calls = received.awaited_calls = 2;
  step.ranks[0].calls = {sent, received};
  step.ranks[1].calls = {message_of(CommKind::send, 1, 0, 1), message_of(CommKind::receive, 1, 0, 1)};
  step.ranks[1].calls[1].awaited_calls = 2;
  const auto times = times_of(step);
  EXPECT_DOUBLE_EQ(times.ranks[0].compute_s, 6);
  EXPECT_DOUBLE_EQ(times.ranks[1].compute_s, 7);
}

/// Two ranks with steps of two seconds forward and four backward. The backward pass starts the sums of two layers: of
/// the last layer's 4 bytes after two seconds, and of the first layer's 1 byte at its end, which goes first. The next
/// step updates the first layer before its forward pass, and the last layer one second into it.
PlannedStep following_steps(int steps) {
  PlannedStep step = step_of({{1, 1, 2, 2}, {1, 1, 2, 2}}, {});
  plan::FollowingSteps following;
  std::vector<size_t> sums;  // in the previous step: of its last layer, and of its first one
  const auto update = [&](size_t sum) {
    following.calls[sum].awaited_after = following.operators.size();
    following.calls[sum].awaited_calls = following.calls.size();
  };
  const auto compute = [&](double seconds) { following.operators.push_back({.name = "linear", .flops = seconds}); };
  const auto sum = [&](int64_t elements, int priority) {
    following.calls.push_back(call_of(CommKind::all_reduce, elements, following.operators.size(), 0));
    following.calls.back().call.priority = priority;
    following.calls.back().is_awaited = true;
    sums.push_back(following.calls.size() - 1);
  };
  for (int i = 0; i < steps; ++i) {
    const std::vector<size_t> before = std::exchange(sums, {});
    if (!before.empty()) update(before[1]);
    compute(1);
    if (!before.empty()) update(before[0]);
    compute(1);
    compute(2);
    sum(4, 0);
    compute(2);
    sum(1, 1);
    following.ends.push_back({.operators = following.operators.size(), .calls = following.calls.size()});
  }
  for (const size_t left : sums) update(left);
  step.following = {following, following};
  return step;
}

TEST(StepTimes, OfStepsThatFollowOnEachOtherAreTheLastOnes) {
  // The sum of 4 bytes takes 6 s, and 2 of them pass before the step's end. Then the sum of 1 byte goes first for 3 s,
  // all exposed. Then come the other 4 s, of which one is hidden.
  const auto times = times_of(following_steps(4));
  EXPECT_DOUBLE_EQ(times.ranks[0].compute_s, 6);
  EXPECT_DOUBLE_EQ(times.ranks[0].exposed_comm_s, 3 + 3);
  EXPECT_DOUBLE_EQ(times.step_s, 12);
  EXPECT_DOUBLE_EQ(times.comm_s, all_reduce_s(4) + all_reduce_s(1));
}

TEST(StepTimes, CoresThatExchangeComputeLess) {
  const DeviceFigures figures = unit_figures();
  const OperatorEstimates estimates(figures, Precision::fp32);
  const plan::HostLinks hosts{.link = {.bytes_per_s = 1}, .message_bytes_per_s = 4};
  CallTimes calls({.world = WorldShape({1, 1}), .devices = {}, .figures = figures, .hosts = hosts});
  // 8 bytes go each way and keep a core busy for (8 + 8) / 4 s, beside 20 s of computing.
  LoggedCall call = call_of(CommKind::all_reduce, 8, 1, 2);
  const auto times =
      plan::step_times({.step = step_of({{1, 20}, {1, 20}}, {call}), .estimates = estimates, .calls = calls});
  EXPECT_DOUBLE_EQ(times.step_s, 1 + 20 + 4);
  // If all of the call is exposed, the core does this work while it waits.
  call.awaited_after = 1;
  const auto waited =
      plan::step_times({.step = step_of({{1, 20}, {1, 20}}, {call}), .estimates = estimates, .calls = calls});
  EXPECT_DOUBLE_EQ(waited.step_s, 1 + 8 + 20);
}

/// The times of CPU workers with `threads` threads each, in the processes of `world`, on hosts with `cores` cores each.
plan::StepTimes on_cores(const PlannedStep& step, int cores, int threads, const WorldShape& world) {
  const DeviceFigures figures = unit_figures();
  const OperatorEstimates estimates(figures, Precision::fp32);
  CallTimes calls({.world = world, .devices = {}, .figures = figures, .hosts = plan::HostLinks{}});
  return plan::step_times(
      {.step = step,
       .estimates = estimates,
       .calls = calls,
       .cores = plan::SharedCores{.cores = cores, .threads = std::vector(step.ranks.size(), threads)}});
}

TEST(StepTimes, WorkersShareCoresAsLongAsTheyCompute) {
  // The two seconds that both compute take four; the rest is computed alone.
  const auto times = on_cores(step_of({{2}, {1, 5}}, {}), 1, 1, WorldShape({2}));
  EXPECT_DOUBLE_EQ(times.ranks[0].compute_s, 4);
  EXPECT_DOUBLE_EQ(times.ranks[1].compute_s, 8);
  EXPECT_DOUBLE_EQ(times.step_s, 8);
  // Each worker has three threads, on four cores in all; they were measured on three cores.
  EXPECT_DOUBLE_EQ(on_cores(step_of({{2}, {2}}, {}), 4, 3, WorldShape({2})).step_s, 2 * 6 / 4.0);
  // The measurement had as many cores as the machine, fewer than the worker has threads.
  EXPECT_DOUBLE_EQ(on_cores(step_of({{2}}, {}), 2, 8, WorldShape({1})).step_s, 2);
  EXPECT_DOUBLE_EQ(on_cores(step_of({{2}, {2}}, {}), 2, 8, WorldShape({2})).step_s, 4);
}

TEST(StepTimes, WorkersShareNoCoresOfOtherProcesses) {
  EXPECT_DOUBLE_EQ(on_cores(step_of({{2}, {2}}, {}), 1, 1, WorldShape({1, 1})).step_s, 2);
}

TEST(StepTimes, AWorkerThatWaitsLeavesItsCoreToOthers) {
  PlannedStep step = step_of({{3, 2}, {1, 4}}, {});
  step.ranks[0].calls = {message_of(CommKind::send, 0, 1, 1)};
  step.ranks[1].calls = {message_of(CommKind::receive, 1, 0, 1)};
  const auto times = on_cores(step, 1, 1, WorldShape({2}));
  // After two seconds the first worker has computed for a second at half of the core. Then it waits for two seconds of
  // the other's work and for the message, which takes five seconds. The other worker computes alone during the first
  // two of these.
  EXPECT_DOUBLE_EQ(times.ranks[0].compute_s, 2 + 2 + 4);
  EXPECT_DOUBLE_EQ(times.ranks[0].exposed_comm_s, 5);
  EXPECT_DOUBLE_EQ(times.ranks[1].exposed_comm_s, 2 + 5);
  // The sender continues once the message has arrived: the two seconds that both compute take four.
  EXPECT_DOUBLE_EQ(times.ranks[1].compute_s, 2 + 4 + 2);
}

/// The cores' work for calls also counts when they are shared.
TEST(StepTimes, CoresThatExchangeAreSharedToo) {
  const DeviceFigures figures = unit_figures();
  const OperatorEstimates estimates(figures, Precision::fp32);
  const plan::HostLinks hosts{.devices = 2, .link = {.bytes_per_s = 1}, .message_bytes_per_s = 4};
  CallTimes calls({.world = WorldShape({2, 2}), .devices = {}, .figures = figures, .hosts = hosts});
  // Each process has 2 s of work for the bytes between the processes, and one of them does it while it waits.
  PlannedStep step = step_of({{1, 20}, {1, 1}}, {call_of(CommKind::all_reduce, 8, 1, 1, 4)});
  step.ranks[0].calls[0].awaited_after = 2;
  const auto times = plan::step_times({.step = step,
                                       .estimates = estimates,
                                       .calls = calls,
                                       .cores = plan::SharedCores{.cores = 1, .threads = {1, 1}}});
  EXPECT_DOUBLE_EQ(times.step_s, (1 + 20 + 2) + (1 + 1 + 2)) << "their core is never idle";
  EXPECT_DOUBLE_EQ(times.ranks[1].exposed_comm_s, 8);
}

void expect_stretches(const std::vector<plan::Stretch>& got, const std::vector<std::pair<double, double>>& expected) {
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i) {
    EXPECT_DOUBLE_EQ(got[i].begin, expected[i].first) << i;
    EXPECT_DOUBLE_EQ(got[i].end, expected[i].second) << i;
  }
}

TEST(StepTimes, TellWhenEachOperatorWaitAndCallWas) {
  // Rank 0 starts the sum at 3 and hides 4 s of it; rank 1 arrives at 5. From then, two rounds and 8 bytes take ten
  // seconds.
  const auto times = times_of(step_of({{3, 4, 5}, {5, 4, 1}}, {call_of(CommKind::all_reduce, 8, 1, 2)}));
  expect_stretches(times.courses[0].operators, {{0, 3}, {3, 7}, {15, 20}});
  expect_stretches(times.courses[0].waits, {{7, 15}});
  expect_stretches(times.courses[1].operators, {{0, 5}, {5, 9}, {15, 16}});
  expect_stretches(times.courses[1].waits, {{9, 15}});
  for (const size_t rank : {0, 1}) {
    const plan::PlayedCall& sum = times.courses[rank].calls.at(0);
    EXPECT_DOUBLE_EQ(sum.begin, rank == 0 ? 3 : 5);
    EXPECT_DOUBLE_EQ(sum.together, 5);
    EXPECT_DOUBLE_EQ(sum.end.value(), 15);
  }
}

/// In double precision a million seconds plus this time is a million seconds.
TEST(StepTimes, OperatorsThatTakeNoTimeThatCountsArePlayedToo) {
  const auto times = times_of(step_of({{1, 1e-11}, {1e6, 1}}, {call_of(CommKind::all_reduce, 8, 1, 1)}));
  ASSERT_EQ(times.courses[0].operators.size(), 2U);
  EXPECT_EQ(times.courses[0].operators[1].end, 1e6 + all_reduce_s(8));
}

TEST(StepTimes, OperatorsLastLongerWhereCoresAreShared) {
  // One of the second operator's three seconds is computed beside the other worker, at half of the core.
  const auto times = on_cores(step_of({{2, 3}, {3}}, {}), 1, 1, WorldShape({2}));
  expect_stretches(times.courses[0].operators, {{0, 4}, {4, 8}});
  expect_stretches(times.courses[1].operators, {{0, 6}});
}

TEST(OperatorSeconds, AreThoseOfProductsOrOfMemory) {
  const DeviceFigures& h200 = *plan::find_device("h200");
  const OperatorCost product{.name = "linear", .flops = 1e12, .bytes = 1000};
  EXPECT_NEAR(
      plan::operator_seconds(product, h200, Precision::fp32) / plan::operator_seconds(product, h200, Precision::bf16),
      989.4 / 67, 1e-9);
  const OperatorCost pass{.name = "add", .flops = 0, .bytes = 4'800'000'000};
  EXPECT_NEAR(plan::operator_seconds(pass, h200, Precision::fp32), 1e-3 / 0.8, 1e-9);
  EXPECT_EQ(plan::operator_seconds({.name = "tanh", .bytes = 1}, h200, Precision::fp32), h200.operator_s);
}

TEST(CountedDevices, AreANumberOfAKind) {
  const auto counted = plan::parse_counted_devices("16xh200", "--devices");
  ASSERT_TRUE(counted);
  EXPECT_EQ(counted->count, 16);
  EXPECT_EQ(counted->figures->name, "h200");
  for (const char* list : {"cpu:0-3", "auto", "cuda:0,cuda:1", "16"})
    EXPECT_FALSE(plan::parse_counted_devices(list, "--devices")) << list;
  for (const char* wrong : {"0xh200", "4097xh200", "2xh300", "99999999999xcpu"})
    testing::expect_error(ExitCode::config, {"--devices", wrong, "h200"},
                          [&] { plan::parse_counted_devices(wrong, "--devices"); });
  EXPECT_EQ(plan::find_gpu("NVIDIA H200")->name, "h200");
  EXPECT_EQ(plan::find_gpu("NVIDIA GeForce"), nullptr);
}

}  // namespace
}  // namespace dptrain
