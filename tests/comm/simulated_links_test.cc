// Simulated links that limit communication between threads.
#include "comm/simulated_links.h"

#include <gtest/gtest.h>

#include <thread>

#include "comm/communicator_fixture.h"
#include "config/config_document.h"
#include "support/expect_error.h"

namespace dptrain {
namespace {

constexpr double kMs = 1e-3;

std::vector<DeviceId> workers(int count) {
  std::vector<DeviceId> devices;
  for (int i = 0; i < count; ++i) devices.push_back({DeviceKind::cpu, i});
  return devices;
}

/// Seconds of `call`, made by all `size` ranks, over links of 1 ms and 1 MB/s.
double seconds_of(CommCall call, int size, int64_t elements) {
  SimulatedLinks links({.all = {.latency_s = kMs, .bytes_per_s = 1e6}, .pairs = {}}, workers(size));
  const CommBuffer buffer{.elements = elements, .dtype = DType::f32};
  call.in = call.out = buffer;
  std::vector<CommCall> calls(static_cast<size_t>(size), call);
  std::vector<int> ranks;
  for (int rank = 0; rank < size; ++rank) ranks.push_back(rank);
  return links.seconds(calls, ranks);
}

TEST(SimulatedLinks, CollectivesTakeWhatARingTakes) {
  // 1,000 floats take 4 ms.
  EXPECT_NEAR(seconds_of({.kind = CommKind::all_reduce}, 4, 1000), 6 * (kMs + kMs), 1e-9);
  EXPECT_NEAR(seconds_of({.kind = CommKind::all_gather}, 4, 1000), 3 * 5 * kMs, 1e-9);
  EXPECT_NEAR(seconds_of({.kind = CommKind::reduce_scatter}, 4, 1000), 3 * 5 * kMs, 1e-9);
  EXPECT_NEAR(seconds_of({.kind = CommKind::broadcast, .other = 0}, 4, 1000), 3 * kMs + 4 * kMs, 1e-9);
  EXPECT_NEAR(seconds_of({.kind = CommKind::reduce, .other = 2}, 4, 1000), 3 * kMs + 4 * kMs, 1e-9);
  EXPECT_NEAR(seconds_of({.kind = CommKind::gather, .other = 1}, 4, 1000), 3 * 5 * kMs, 1e-9);
  EXPECT_NEAR(seconds_of({.kind = CommKind::barrier}, 4, 0), 3 * kMs, 1e-9);
  EXPECT_EQ(seconds_of({.kind = CommKind::all_reduce}, 1, 1000), 0);
}

TEST(SimulatedLinks, TheSlowestLinkOfTheRingDecides) {
  LinkSpec spec{.all = {.latency_s = kMs}, .pairs = {}};
  spec.pairs[{{DeviceKind::cpu, 1}, {DeviceKind::cpu, 2}}] = {.latency_s = 50 * kMs};
  const SimulatedLinks links(spec, workers(4));
  const std::vector<CommCall> all(4, {.kind = CommKind::all_reduce});
  EXPECT_NEAR(links.seconds(all, std::vector{0, 1, 2, 3}), 6 * 50 * kMs, 1e-9);
  EXPECT_NEAR(links.seconds(all, std::vector{1, 0, 2, 3}), 6 * kMs, 1e-9) << "1 and 2 aren't neighbors in this ring";
  const std::vector<CommCall> pair = {{.kind = CommKind::send}, {.kind = CommKind::receive}};
  EXPECT_NEAR(links.seconds(pair, std::vector{2, 1}), 50 * kMs, 1e-9);
  EXPECT_NEAR(links.seconds(pair, std::vector{1, 3}), kMs, 1e-9);
}

TEST(SimulatedLinks, ALinkCarriesOneAfterTheOther) {
  SimulatedLinks links({.all = {.latency_s = 100}, .pairs = {}}, workers(3));
  const std::vector<CommCall> message = {{.kind = CommKind::send}, {.kind = CommKind::receive}};
  const auto begun = Clock::now();
  const auto arrival = [&](int from, int to) {
    return seconds_between(begun, links.arrival(links.carry(message, std::vector{from, to})));
  };
  EXPECT_NEAR(arrival(0, 1), 100, 1);
  EXPECT_NEAR(arrival(0, 1), 200, 1);
  EXPECT_NEAR(arrival(1, 0), 100, 1) << "the other way";
  EXPECT_NEAR(arrival(1, 2), 100, 1) << "another link";
  const std::vector<CommCall> all(3, {.kind = CommKind::barrier});
  EXPECT_NEAR(seconds_between(begun, links.arrival(links.carry(all, std::vector{0, 1, 2}))), 400, 1)
      << "behind all messages";
  EXPECT_NEAR(arrival(2, 1), 500, 1);
}

TEST(SimulatedLinks, WhatIsUrgentInterruptsTheOthers) {
  SimulatedLinks links({.all = {.latency_s = 100}, .pairs = {}}, workers(3));
  const auto begun = Clock::now();
  const auto carry = [&](int from, int to, int priority) {
    const std::vector<CommCall> message = {{.kind = CommKind::send, .priority = priority},
                                           {.kind = CommKind::receive, .priority = priority}};
    return links.carry(message, std::vector{from, to});
  };
  const auto arrival = [&](int64_t operation) { return seconds_between(begun, links.arrival(operation)); };
  const int64_t plain = carry(0, 1, -2), behind = carry(0, 1, -2);
  EXPECT_NEAR(arrival(plain), 100, 1);
  const int64_t urgent = carry(0, 1, -1), elsewhere = carry(1, 2, -3);
  EXPECT_NEAR(arrival(urgent), 100, 1);
  EXPECT_NEAR(arrival(plain), 200, 1) << "what it had left comes after";
  EXPECT_NEAR(arrival(behind), 300, 1);
  EXPECT_NEAR(arrival(elsewhere), 100, 1) << "another link";
  const int64_t everything = [&] {
    const std::vector<CommCall> all(3, {.kind = CommKind::barrier});
    return links.carry(all, std::vector{0, 1, 2});
  }();
  EXPECT_NEAR(arrival(everything), 200, 1) << "two latencies, before all others";
  EXPECT_NEAR(arrival(elsewhere), 300, 1);
  EXPECT_NEAR(arrival(behind), 500, 1);
}

TEST(SimulatedLinks, WhatHasArrivedStaysThere) {
  SimulatedLinks links({.all = {.latency_s = 2 * kMs}, .pairs = {}}, workers(2));
  const std::vector<CommCall> message = {{.kind = CommKind::send}, {.kind = CommKind::receive}};
  const int64_t first = links.carry(message, std::vector{0, 1}), second = links.carry(message, std::vector{0, 1});
  const Clock::time_point first_arrival = links.arrival(first);
  EXPECT_LE(first_arrival, links.arrival(second));
  std::this_thread::sleep_until(links.arrival(second));
  for (const int64_t operation : {first, second}) {
    const Clock::time_point arrival = links.arrival(operation);
    EXPECT_LE(arrival, Clock::now());
  }
}

/// Runs `function` over links of this speed, and returns how the ranks end.
[[nodiscard]] std::vector<Outcome> over_links(int size, const LinkSpeed& speed, const RankFunction& function) {
  auto ranks = make_thread_communicators(
      size,
      {.timeout_s = 60, .links = std::make_shared<SimulatedLinks>(LinkSpec{.all = speed, .pairs = {}}, workers(size))});
  return outcomes_of(ranks, function);
}

/// Runs `function` over such links; each rank must end without an exception.
void run_over_links(int size, const LinkSpeed& speed, const RankFunction& function) {
  for (const Outcome& outcome : over_links(size, speed, function)) EXPECT_EQ(outcome, Outcome{});
}

TEST(SimulatedLinks, ACallTakesAsLongAndTheSumIsTheSame) {
  run_over_links(3, {.latency_s = 10 * kMs}, [](Communicator& own) {
    std::vector<float> values(100, static_cast<float>(own.rank() + 1));
    const auto begun = Clock::now();
    own.all_reduce({.data = values.data(), .elements = 100});
    EXPECT_GE(seconds_since(begun), 40 * kMs);
    for (const float value : values) EXPECT_EQ(value, 6);
  });
}

TEST(SimulatedLinks, HalfTheBandwidthTakesTwiceAsLong) {
  const auto seconds = [](double bytes_per_s) {
    double taken = 0;
    run_over_links(2, {.bytes_per_s = bytes_per_s}, [&taken](Communicator& own) {
      std::vector<float> values(100'000);
      own.barrier();
      const auto begun = Clock::now();
      own.all_reduce({.data = values.data(), .elements = 100'000});
      if (own.rank() == 0) taken = seconds_since(begun);
    });
    return taken;
  };
  const double at_4 = seconds(4e6), at_2 = seconds(2e6);
  EXPECT_GE(at_4, 0.1);
  EXPECT_GE(at_2, 0.2);
  EXPECT_LE(at_2, 3 * at_4);
}

TEST(SimulatedLinks, ARankComputesWhileItsSumIsOnTheWay) {
  run_over_links(2, {.latency_s = 100 * kMs}, [](Communicator& own) {
    float value = 1;
    const auto begun = Clock::now();
    const auto work = own.start_all_reduce({.data = &value, .elements = 1});
    EXPECT_LT(seconds_since(begun), 100 * kMs);
    work->wait();
    EXPECT_GE(seconds_since(begun), 200 * kMs);
    EXPECT_EQ(value, 2);
  });
}

TEST(SimulatedLinks, AnUrgentSumEndsBeforeThoseThatWereStartedEarlier) {
  run_over_links(2, {.bytes_per_s = 1e6}, [](Communicator& own) {
    // Two buffers take 800 ms each, and the urgent one 200 ms.
    std::vector<float> first(200'000, 1), second(200'000, 2), urgent(50'000, 3);
    const auto begin = [&](std::vector<float>& values, int priority) {
      return own.start_prioritized_all_reduce(buffer_of(values), priority);
    };
    own.barrier();
    const auto begun = Clock::now();
    const auto first_work = begin(first, -3), second_work = begin(second, -2), urgent_work = begin(urgent, -1);
    urgent_work->wait();
    EXPECT_GE(seconds_since(begun), 0.2);
    EXPECT_LT(seconds_since(begun), 0.8) << "before any of the others can have ended";
    second_work->wait();
    EXPECT_GE(seconds_since(begun), 1);
    EXPECT_LT(seconds_since(begun), 1.7) << "before the first one can have";
    first_work->wait();
    EXPECT_GE(seconds_since(begun), 1.8);
    for (const float value : first) EXPECT_EQ(value, 2);
    for (const float value : second) EXPECT_EQ(value, 4);
    for (const float value : urgent) EXPECT_EQ(value, 6);
  });
}

TEST(SimulatedLinks, AnAbortEndsTheWait) {
  const auto begun = Clock::now();
  const auto outcomes = over_links(2, {.latency_s = 100}, [](Communicator& own) {
    if (own.rank() == 1) {
      std::vector<float> value(1);
      const auto work = own.start_all_reduce({.data = value.data(), .elements = 1});
      own.abort("out of memory");
      EXPECT_THROW(work->wait(), Error);
      return;
    }
    float value = 1;
    own.all_reduce({.data = &value, .elements = 1});
  });
  EXPECT_LT(seconds_since(begun), 50);
  EXPECT_EQ(outcomes[0], (Outcome{ExitCode::peer_lost, "out of memory"}));
}

std::optional<LinkSpec> read(const std::string& yaml) {
  std::optional<LinkSpec> links;
  const ConfigSession session(parse_config(yaml + "\n", "a.yaml"),
                              [&](ConfigReader& config) { links = read_links(config, workers(3)); });
  return links;
}

TEST(ReadLinks, OfAllAndOfPairs) {
  EXPECT_FALSE(read("{}").has_value());
  const auto links = read("links: {latency_us: 50, gbps: 8, pairs: {'cpu:2-cpu:0': {gbps: 1}}}");
  const auto all = workers(3);
  EXPECT_DOUBLE_EQ(links->between(all[0], all[1]).latency_s, 50e-6);
  EXPECT_DOUBLE_EQ(links->between(all[0], all[1]).bytes_per_s, 1e9);
  EXPECT_DOUBLE_EQ(links->between(all[0], all[2]).bytes_per_s, 1.25e8);
  EXPECT_DOUBLE_EQ(links->between(all[2], all[0]).latency_s, 50e-6) << "as between all";
}

TEST(ReadLinks, RefusesWhatIsNoLink) {
  testing::expect_error(ExitCode::config, {"links.pairs.cpu:0-cpu:7", "two devices of the list", "'cpu:0-cpu:2'"},
                        [] { read("links: {pairs: {'cpu:0-cpu:7': {gbps: 1}}}"); });
  testing::expect_error(ExitCode::config, {"links.pairs.cpu:0-cpu:0", "two devices of the list"},
                        [] { read("links: {pairs: {'cpu:0-cpu:0': {gbps: 1}}}"); });
  testing::expect_error(ExitCode::config, {"links.pairs.cpu:2-cpu:0", "each link once"},
                        [] { read("links: {pairs: {'cpu:0-cpu:2': {gbps: 1}, 'cpu:2-cpu:0': {gbps: 2}}}"); });
  testing::expect_error(ExitCode::config, {"links.gbps"}, [] { read("links: {gbps: 0}"); });
  testing::expect_error(ExitCode::config, {"write for instance pairs: {'cpu:0-cpu:1': {gbps: 10}}"},
                        [] { read("links: {pairs: 5}"); });
  testing::expect_error(ExitCode::config, {"links.latency_us"}, [] { read("links: {latency_us: -1}"); });
}

}  // namespace
}  // namespace dptrain
