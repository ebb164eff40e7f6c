// A planned key-value store's servers: where they are, how many bytes cross the links, and when weights come back.
#include "plan/store_times.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "plan/step_times.h"

namespace dptrain {
namespace {

using parallel::ServedStore;
using plan::HostLinks;
using plan::place_servers;
using plan::StorePlaces;
using plan::StoreTimes;

/// Links with 100 bytes per second and a latency of half a second; adding up and copying on hosts takes no time.
constexpr HostLinks kLinks = {.link = {.latency_s = 0.5, .bytes_per_s = 100}};
double at_once(double) { return 0; }
double a_byte_a_millisecond(double bytes) { return bytes / 1000; }

/// Keys of 100 elements, 400 bytes, on the servers with these numbers.
ServedStore store_on(const std::vector<int>& servers) {
  ServedStore store;
  for (size_t key = 0; key < servers.size(); ++key) {
    const auto begin = static_cast<int64_t>(100 * key);
    store.slices.push_back({.key = key, .begin = begin, .end = begin + 100, .server = servers[key]});
  }
  return store;
}

void finish(StoreTimes& times) {
  while (times.next()) times.go_on();
}

TEST(StorePlaces, AreThoseOfTheLaunchScript) {
  const WorldShape workers({8, 8});
  EXPECT_EQ(place_servers(workers, 0, 0).hosts_of_servers, (std::vector<int>{0, 1})) << "in the workers' processes";
  // The scheduler is on the first host.
  EXPECT_EQ(place_servers(workers, 3, 0).hosts_of_servers, (std::vector<int>{1, 0, 1}));
  const StorePlaces apart = place_servers(workers, 3, 2);
  EXPECT_EQ(apart.hosts_of_servers, (std::vector<int>{2, 3, 2}));
  EXPECT_EQ(apart.hosts(), 4);
}

TEST(StoreTraffic, IsThatOfTheFullestLinks) {
  // Two workers, each with a server of one key: a push to a worker's own server takes no link.
  const auto inside = plan::traffic_of(store_on({0, 1}), place_servers(WorldShape({1, 1}), 0, 0));
  EXPECT_EQ(inside.pushed, 800);
  EXPECT_EQ(inside.pulled, 800);
  EXPECT_EQ(inside.entering, 400 + 400) << "the other's push, and the other server's weights";
  EXPECT_EQ(inside.leaving, 800);
  // Three workers, and one server on another host.
  const auto apart = plan::traffic_of(store_on({0, 0}), place_servers(WorldShape({1, 1, 1}), 1, 1));
  EXPECT_EQ(apart.entering, 3 * 800);
  EXPECT_EQ(apart.leaving, 3 * 800);
  // Of the tree of sums over 3 + 3 ranks a worker has two whole subtrees, and pushes both.
  EXPECT_EQ(plan::traffic_of(store_on({0}), place_servers(WorldShape({3, 3}), 0, 0)).pushed, 2 * 400);
}

TEST(StoreTimes, WhatIsPushedToAnotherHostTakesTheLinkThereAndBack) {
  const ServedStore store = store_on({0});
  const StorePlaces places = place_servers(WorldShape({1, 1}), 0, 0);
  StoreTimes times({.store = store, .places = places, .hosts = kLinks, .memory_s = at_once});
  EXPECT_DOUBLE_EQ(times.push(0, 10), 10) << "the first worker's is in its own process";
  EXPECT_FALSE(times.pulled(0));
  finish(times);
  ASSERT_TRUE(times.pulled(0));
  EXPECT_DOUBLE_EQ(*times.pulled(0), 10 + (4 + 0.5) + (4 + 0.5));
}

TEST(StoreTimes, WorkersShareTheLinkOfAServer) {
  const ServedStore store = store_on({0});
  const StorePlaces places = place_servers(WorldShape({1, 1, 1}), 1, 1);
  StoreTimes times({.store = store, .places = places, .hosts = kLinks, .memory_s = at_once});
  times.push(0, 0);
  finish(times);
  EXPECT_DOUBLE_EQ(*times.pulled(0), (3 * 4 + 0.5) + (3 * 4 + 0.5));
}

TEST(StoreTimes, ServersWorkAtTheSameTime) {
  const auto last_pull = [](const ServedStore& store, int servers) {
    const StorePlaces places = place_servers(WorldShape({1, 1}), servers, servers);
    StoreTimes times({.store = store, .places = places, .hosts = kLinks, .memory_s = at_once});
    times.push(1, 0);
    times.push(0, 0);
    finish(times);
    return std::max(*times.pulled(0), *times.pulled(1));
  };
  // One server's link carries 2 keys x 2 workers x 4 s in each direction, two servers' links half as much; both
  // directions overlap.
  EXPECT_DOUBLE_EQ(last_pull(store_on({0, 0}), 1), 16 + 0.5 + 8 + 0.5);
  EXPECT_DOUBLE_EQ(last_pull(store_on({0, 1}), 2), last_pull(store_on({0, 0}), 1) - 8);
}

TEST(StoreTimes, AServerCopiesAddsUpAndUpdates) {
  ServedStore store = store_on({0});
  store.state_tensors = 1;
  const StorePlaces places = place_servers(WorldShape({1}), 0, 0);
  StoreTimes times({.store = store, .places = places, .memory_s = a_byte_a_millisecond});
  times.push(0, 0);
  finish(times);
  // The copy reads and writes 400 bytes. A sum of one push reads and writes. An update reads the sum, and reads and
  // writes weights and momentum.
  const double copy = 0.8, sum = 0.8, update = 2.0;
  EXPECT_DOUBLE_EQ(times.busiest_server_s(), sum + update);
  EXPECT_DOUBLE_EQ(*times.pulled(0), copy + sum + update + copy);
  EXPECT_DOUBLE_EQ(times.take_work_s(), copy + sum + update + copy) << "by the worker's cores";
  EXPECT_DOUBLE_EQ(times.adding_s(0, 3), 4 * 0.4);
}

TEST(StoreTimes, AnUpdateOfAllWaitsForTheLastKey) {
  ServedStore store = store_on({0, 1});
  store.updates_at_once = false;
  const StorePlaces places = place_servers(WorldShape({1, 1}), 0, 0);
  StoreTimes times({.store = store, .places = places, .hosts = kLinks, .memory_s = at_once});
  times.push(1, 0);
  finish(times);
  EXPECT_FALSE(times.pulled(1)) << "its norm is that of both";
  times.push(0, 100);
  finish(times);
  EXPECT_GT(*times.pulled(1), 100);
}

/// One of two workers pushes 8 bytes over a link of one byte per second after its first operator. It waits for the
/// weights after its second operator, which takes `seconds`.
plan::StepTimes step_of_worker(double seconds) {
  const plan::DeviceFigures figures = {
      .name = "unit", .fp32_flops = 2, .memory_bytes_per_s = 1e12, .inside = {}, .source = "a test"};
  const CommBuffer buffer{.elements = 2, .dtype = DType::f32};
  const auto call = [&](CommKind kind) {
    return LoggedCall{.call = {.kind = kind, .in = buffer, .out = buffer},
                      .key = 0,
                      .started_after = 1,
                      .awaited_after = 2,
                      .awaited_calls = 2};
  };
  plan::PlannedRank rank;
  rank.operators = {{.name = "linear", .flops = 1}, {.name = "linear", .flops = seconds}};
  rank.calls = {call(CommKind::send), call(CommKind::receive)};
  plan::PlannedStep step{.world_size = 2, .batch_samples = 1, .ranks = {rank}, .store = parallel::StoreUse()};
  step.store->served = ServedStore{.slices = {{.key = 0, .begin = 0, .end = 2, .server = 0}}};
  plan::CallTimes calls(
      {.world = WorldShape({1, 1}), .devices = {}, .figures = figures, .hosts = HostLinks{.link = {.bytes_per_s = 1}}});
  const plan::OperatorEstimates estimates(figures, Precision::fp32);
  return plan::step_times(
      {.step = step, .estimates = estimates, .calls = calls, .places = place_servers(WorldShape({1, 1}), 1, 1)});
}

TEST(StepTimes, OfAStoreWaitForTheWeightsAsFarAsNothingHidesThat) {
  const plan::StepTimes exposed = step_of_worker(5);
  EXPECT_DOUBLE_EQ(exposed.step_s, 1 + 16 + 16);
  EXPECT_DOUBLE_EQ(exposed.ranks[0].exposed_comm_s, 16 + 16 - 5);
  const plan::StepTimes hidden = step_of_worker(50);
  EXPECT_DOUBLE_EQ(hidden.step_s, 51);
  EXPECT_DOUBLE_EQ(hidden.ranks[0].exposed_comm_s, 0);
  EXPECT_DOUBLE_EQ(hidden.comm_s, 8 + 8) << "of each worker, there and back";
}

}  // namespace
}  // namespace dptrain
