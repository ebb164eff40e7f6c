#include "plan/call_times.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "plan/logged_calls.h"

namespace dptrain {
namespace {

using plan::CallTimes;
using plan::DeviceFigures;
using testing::call_of;
using testing::message_of;
using testing::unit_figures;

double seconds_of(const CallTimes::Options& options, const LoggedCall& call) {
  CallTimes times(options);
  const std::vector<const LoggedCall*> ranks(
      static_cast<size_t>(std::min(call.ranks, options.world.ranks_of(0).size())), &call);
  return times.cost(ranks).seconds;
}

TEST(CallTimes, OverLinksOfTheConfigurationAreWhatTrainingIsHeldTo) {
  const DeviceFigures figures = unit_figures();
  const LinkSpec links{.all = {.latency_s = 0.5, .bytes_per_s = 10}, .pairs = {}};
  const std::vector<DeviceId> devices = {{DeviceKind::cpu, 0}, {DeviceKind::cpu, 1}, {DeviceKind::cpu, 2}};
  const LoggedCall call = call_of(CommKind::all_reduce, 30, 0, 0, 3);
  // A ring: four steps of a third each.
  EXPECT_DOUBLE_EQ(seconds_of({.world = WorldShape({3}), .devices = devices, .figures = figures, .links = links}, call),
                   4 * (0.5 + 1));
}

TEST(CallTimes, BetweenHostsAreThoseOfTheExchange) {
  const DeviceFigures figures = unit_figures();
  const plan::HostLinks hosts{.devices = 2, .link = {.latency_s = 0.5, .bytes_per_s = 1e6}};
  constexpr int kHosts = 4;
  const LoggedCall call = call_of(CommKind::all_reduce, 4'000'000, 0, 0, 2 * kHosts);
  // Two rounds, in each of which three quarters leave a host; the bytes of its two devices are added up before.
  LoggedCall f32 = call;
  f32.call.in.dtype = f32.call.out.dtype = DType::f32;
  EXPECT_NEAR(seconds_of({.world = WorldShape({2, 2, 2, 2}), .devices = {}, .figures = figures, .hosts = hosts}, f32),
              2 * (0.5 + 0.75 * 16), 1e-3);
}

TEST(CallTimes, OverNcclAreAsFastAsTheSlowestLink) {
  DeviceFigures figures = unit_figures();
  figures.inside = {.latency_s = 0.25, .bytes_per_s = 1e6};
  plan::HostLinks hosts{.devices = 2, .link = {.latency_s = 0.5, .bytes_per_s = 1e6}, .message_s = 100};
  LoggedCall call = call_of(CommKind::all_reduce, 1'000'000, 0, 0, 8);
  call.call.in.dtype = call.call.out.dtype = DType::f32;
  const auto seconds = [&] {
    return seconds_of(
        {.world = WorldShape({2, 2, 2, 2}), .devices = {}, .figures = figures, .hosts = hosts, .over_nccl = true},
        call);
  };
  // A ring sends 2 * 7 / 8 of the buffer over each link. A message goes twice through a tree over four hosts, and twice
  // within a host.
  EXPECT_DOUBLE_EQ(seconds(), 4 * 0.5 + 2 * 0.25 + 1.75 * 4);
  hosts.link.bytes_per_s = 5e5;
  EXPECT_DOUBLE_EQ(seconds(), 4 * 0.5 + 2 * 0.25 + 1.75 * 8);
  hosts.link.bytes_per_s = 1e9;
  EXPECT_DOUBLE_EQ(seconds(), 4 * 0.5 + 2 * 0.25 + 1.75 * 4) << "as fast as inside a host";
}

/// NCCL's messages go from GPU to GPU; messages through host memory are copied at either end.
TEST(CallTimes, MessagesOverNcclTakeWhatTheirLinkDoes) {
  DeviceFigures figures = unit_figures();
  figures.inside = {.latency_s = 0.25, .bytes_per_s = 1e6};
  figures.staging_bytes_per_s = 2e6;
  const plan::HostLinks hosts{
      .devices = 1, .link = {.latency_s = 0.5, .bytes_per_s = 1e6}, .message_s = 0.125, .memory_bytes_per_s = 4e6};
  LoggedCall message = message_of(CommKind::send, 0, 1, 0);
  message.call.in.elements = message.call.out.elements = 3'000'000;
  CallTimes::Options options{.world = WorldShape({1, 1}), .devices = {}, .figures = figures, .hosts = hosts};
  EXPECT_DOUBLE_EQ(seconds_of(options, message), 2 * (2 * 3 / 4.0 + 3 / 2.0) + 0.125 + 0.5 + 3);
  options.over_nccl = true;
  EXPECT_DOUBLE_EQ(seconds_of(options, message), 2 * 0.25 + 0.5 + 3);
  message.over_host = true;
  EXPECT_GT(seconds_of(options, message), 2 * (2 * 3 / 4.0)) << "as stages tell what their tensors are like";
}

/// 16-bit sums, and all sums where they are deterministic, are made in the tree's order from what NCCL carries.
TEST(CallTimes, InTheTreesOrderTakeFourRounds) {
  DeviceFigures figures = unit_figures();
  figures.inside = {.latency_s = 0.25, .bytes_per_s = 1e6};
  figures.memory_bytes_per_s = 0;
  const plan::HostLinks hosts{
      .devices = 2, .link = {.latency_s = 0.5, .bytes_per_s = 1e6}, .message_s = 0.125, .memory_bytes_per_s = 1};
  int64_t elements = 1'024'000;
  const auto seconds = [&](DType dtype) {
    LoggedCall call = call_of(CommKind::all_reduce, elements, 0, 0, 8);
    call.call.in.dtype = call.call.out.dtype = dtype;
    return seconds_of({.world = WorldShape({2, 2, 2, 2}),
                       .devices = {},
                       .figures = figures,
                       .hosts = hosts,
                       .over_nccl = true,
                       .deterministic = true},
                      call);
  };
  // Half of the buffer goes to the other device of the host, in both directions. Three quarters of it leave a host, in
  // both directions, with one message from each device to each other host.
  const double mb = 1.024, latencies = 2 * 0.25 + 2 * (0.5 + 3 * 0.125);
  EXPECT_NEAR(seconds(DType::f32), latencies + 2 * 0.5 * 4 * mb + 2 * 0.75 * 4 * mb, 1e-6);
  EXPECT_NEAR(seconds(DType::bf16), latencies + 2 * 0.5 * 2 * mb + 0.75 * (4 + 2) * mb, 1e-6);
  // Each device adds up two numbers of half of the buffer, and four of an eighth.
  figures.memory_bytes_per_s = 1e6;
  const double links = latencies + 2 * 0.5 * 2 * mb + 0.75 * (4 + 2) * mb;
  EXPECT_NEAR(seconds(DType::bf16), links + 0.5 * (2 + 2 + 4) * mb + 0.125 * (4 * 4 + 2) * mb, 1e-6);
  // A larger buffer is summed in pieces.
  figures.memory_bytes_per_s = 0;
  elements = 2 * (32 << 20) / 4;
  EXPECT_NEAR(seconds(DType::f32), 2 * (latencies + (0.5 * 2 + 0.75 * 2) * (32 << 20) / 1e6), 1e-6);
}

TEST(CallTimes, OfMoreHostsTakeLonger) {
  const DeviceFigures figures = unit_figures();
  const plan::HostLinks hosts{.devices = 8, .link = {.latency_s = 1e-6, .bytes_per_s = 1e9}, .message_s = 1e-6};
  double before = 0;
  for (const int count : {2, 16, 512}) {
    LoggedCall call = call_of(CommKind::all_reduce, 1'000'000, 0, 0, 8 * count);
    call.call.in.dtype = call.call.out.dtype = DType::f32;
    const double seconds = seconds_of({.world = WorldShape(std::vector<int>(static_cast<size_t>(count), 8)),
                                       .devices = {},
                                       .figures = figures,
                                       .hosts = hosts},
                                      call);
    EXPECT_GT(seconds, before) << count;
    before = seconds;
  }
}

}  // namespace
}  // namespace dptrain
