#include "plan/calibration.h"

#include <gtest/gtest.h>

namespace dptrain {
namespace {

using plan::CallTimes;
using plan::DeviceFigures;
using plan::OperatorEstimates;
using plan::PlannedRank;
using plan::PlannedStep;

constexpr int64_t kElements = 3'000'000;

DeviceFigures figures() {
  return {.name = "unit", .fp32_flops = 2, .memory_bytes_per_s = 1e9, .inside = {}, .source = "a test"};
}

/// Two hosts with one rank each, which compute for ten seconds and then add up.
PlannedStep step_of_two_hosts() {
  const CommBuffer buffer{.elements = kElements, .dtype = DType::f32};
  PlannedRank rank;
  rank.operators = {{.name = "linear", .flops = 10}};
  rank.calls = {{.call = {.kind = CommKind::all_reduce, .in = buffer, .out = buffer},
                 .ranks = 2,
                 .started_after = 1,
                 .awaited_after = 1,
                 .awaited_calls = 1}};
  return {.world_size = 2, .batch_samples = 1, .ranks = {rank, rank}, .store = {}};
}

CallTimes calls_of(const DeviceFigures& device, const plan::HostLinks& hosts) {
  return CallTimes({.world = WorldShape({1, 1}), .devices = {}, .figures = device, .hosts = hosts});
}

TEST(Calibration, OfARunOfHostsPlansThatRunAsItWas) {
  const DeviceFigures device = figures();
  const OperatorEstimates estimates(device, Precision::fp32);
  const PlannedStep step = step_of_two_hosts();
  const plan::MeasuredStep measured{.compute_s = 20, .comm_s = 3, .step_s = 24, .devices_of_hosts = {1, 1}};
  CallTimes calls = calls_of(device, {.devices = 1, .link = {}});
  const auto calibration = plan::calibrated(measured, {.step = step, .estimates = estimates, .calls = calls});
  EXPECT_DOUBLE_EQ(calibration.compute_factor, 2);
  // The bytes are sent, received, read twice and written once.
  ASSERT_TRUE(calibration.exchange);
  EXPECT_NEAR(calibration.exchange->bytes_per_s, 5 * 4.0 * kElements / 3, 1);

  CallTimes again = calls_of(device, {.devices = 1, .link = {}});
  again.set_exchange(*calibration.exchange);
  const auto times =
      plan::step_times({.step = step, .estimates = estimates, .calibration = calibration, .calls = again});
  EXPECT_NEAR(times.step_s, 24, 1e-9);
  EXPECT_NEAR(times.ranks[0].exposed_comm_s, 3, 1e-9);

  // Over a link that takes ten seconds, the cores' work for the exchange goes on meanwhile; adding up follows.
  CallTimes slow = calls_of(device, {.devices = 1, .link = {.bytes_per_s = 4.0 * kElements / 10}});
  slow.set_exchange(*calibration.exchange);
  const auto slowed =
      plan::step_times({.step = step, .estimates = estimates, .calibration = calibration, .calls = slow});
  EXPECT_NEAR(slowed.ranks[0].exposed_comm_s, 10 + 3 * 3.0 / 5, 1e-9);
}

TEST(Calibration, OfARunWhoseExchangeIsKnownMayOverlap) {
  const DeviceFigures device = figures();
  const OperatorEstimates estimates(device, Precision::fp32);
  PlannedStep step = step_of_two_hosts();
  for (PlannedRank& rank : step.ranks) {
    rank.operators.push_back({.name = "linear", .flops = 10});
    rank.calls[0].awaited_after = 2;
  }
  const plan::ExchangeFigures exchange{.message_s = 0.1, .bytes_per_s = 4.0 * kElements};
  const plan::MeasuredStep measured{.compute_s = 50, .comm_s = 1, .step_s = 60, .devices_of_hosts = {1, 1}};
  CallTimes calls = calls_of(device, {.devices = 1, .link = {}});
  const auto calibration = plan::calibrated(
      measured, {.step = step, .estimates = estimates, .calibration = {.exchange = exchange}, .calls = calls});
  ASSERT_TRUE(calibration.exchange);
  EXPECT_EQ(calibration.exchange->bytes_per_s, exchange.bytes_per_s);
  // The core's work for other ranks while it computes is part of the measured time.
  EXPECT_LT(calibration.compute_factor, 50.0 / 20);
  CallTimes again = calls_of(device, {.devices = 1, .link = {}});
  again.set_exchange(exchange);
  const auto times =
      plan::step_times({.step = step, .estimates = estimates, .calibration = calibration, .calls = again});
  EXPECT_NEAR(times.ranks[0].compute_s, 50, 1e-3);
  EXPECT_NEAR(times.step_s, 60, 1e-3);
}

/// The time that CPU workers lose by sharing cores isn't part of an operator's time.
TEST(Calibration, OfARunOnSharedCoresKnowsThatTheyWereShared) {
  const DeviceFigures device = figures();
  const OperatorEstimates estimates(device, Precision::fp32);
  PlannedStep step = step_of_two_hosts();
  for (PlannedRank& rank : step.ranks) rank.calls.clear();
  CallTimes calls({.world = WorldShape({2}), .devices = {}, .figures = device});
  const plan::MeasuredStep measured{.compute_s = 30, .comm_s = 0, .step_s = 31, .devices_of_hosts = {2}};
  const plan::StepTimesRequest request{
      .step = step, .estimates = estimates, .calls = calls, .cores = plan::SharedCores{.cores = 1, .threads = {1, 1}}};
  const auto calibration = plan::calibrated(measured, request);
  EXPECT_NEAR(calibration.compute_factor, 30 / (2 * 10.0), 1e-9);
  EXPECT_NEAR(calibration.host_s, 1, 1e-9);
}

TEST(Calibration, SeesWhetherCallsOverlap) {
  PlannedStep step = step_of_two_hosts();
  EXPECT_FALSE(plan::overlaps(step));
  step.ranks[1].calls[0].started_after = 0;
  EXPECT_TRUE(plan::overlaps(step));
}

}  // namespace
}  // namespace dptrain
