#include "device/meta_device.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>

#include "device/parallel_for.h"
#include "device/timeline.h"

namespace dptrain {
namespace {

std::unique_ptr<Device> meta(DeviceKind kind) { return open_device({kind, 0}, {.counts_only = true}); }

TEST(MetaDevice, HoldsMoreThanAnyMachine) {
  const auto device = meta(DeviceKind::cpu);
  constexpr int64_t kTerabyte = 1'000'000'000'000;
  const auto block = device->allocator().allocate(kTerabyte, MemoryPurpose::activations);
  EXPECT_GE(device->allocator().peak_bytes(), kTerabyte);
  device->fill_zero(block.memory, kTerabyte);
  device->allocator().free(block, MemoryPurpose::activations);
  EXPECT_EQ(device->allocator().in_use().total_bytes(), 0);
}

TEST(MetaDevice, CountsInTheBlocksOfTheDeviceThatItStandsFor) {
  for (const auto& [kind, bytes] : {std::pair{DeviceKind::cpu, 64}, std::pair{DeviceKind::cuda, 256}}) {
    const auto device = meta(kind);
    const auto block = device->allocator().allocate(1, MemoryPurpose::weights);
    EXPECT_EQ(device->allocator().in_use().total_bytes(), bytes);
    device->allocator().free(block, MemoryPurpose::weights);
  }
}

TEST(MetaDevice, NeedsNoGpuOfItsKind) {
  EXPECT_EQ(open_device({DeviceKind::cuda, 63}, {.counts_only = true})->name(), "cuda:63");
}

TEST(MetaDevice, ComputesNothing) {
  const auto device = meta(DeviceKind::cpu);
  parallel_for(*device, 10, [](int64_t) { FAIL() << "an element was computed"; });
  std::array<char, 4> read = {'a', 'b', 'c', 'd'};
  device->download(read.data(), nullptr, 4);
  EXPECT_EQ(read, (std::array<char, 4>{}));
  EXPECT_FALSE(device->computes());
  EXPECT_TRUE(open_device({DeviceKind::cpu, 0})->computes());
}

TEST(MetaDevice, LogsRecordedWorkAsItIsRecorded) {
  const auto device = meta(DeviceKind::cuda);
  ASSERT_TRUE(device->can_record());
  const auto work = device->record([&] { device->fill_zero(nullptr, 100); });
  work->run();
  ASSERT_EQ(device->operator_log()->costs().size(), 1u);
  EXPECT_EQ(device->operator_log()->costs()[0].name, "fill_zero");
}

TEST(OperatorLog, CountsATensorOnceAndWhatAnOperatorLeaves) {
  OperatorLog log;
  const int a = 0, b = 0;
  log.touches(&a, 100);
  log.touches(&b, 10);
  log.touches(&a, 100);
  log.multiplies(7);
  const size_t outer = log.begin("outer");
  log.end(log.begin("inner"), 5, 0);
  log.end(outer, 0, 1);
  ASSERT_EQ(log.costs().size(), 2u);
  EXPECT_EQ(log.costs()[0].bytes, 111);
  EXPECT_EQ(log.costs()[0].flops, 7);
  EXPECT_EQ(log.costs()[1].name, "inner");
  EXPECT_EQ(log.costs()[1].bytes, 0);
}

TEST(MetaDevice, ItsTimelineCountsOperators) {
  const auto device = meta(DeviceKind::cpu);
  const auto timeline = device->make_timeline();
  timeline->keep(true);
  const auto log = [&](const char* name) { device->operator_log()->add(name, 1); };
  log("before");
  const int64_t outer = timeline->begin_phase("forward");
  log("first");
  const int64_t inner = timeline->begin_phase("fc1");
  log("second");
  log("third");
  timeline->end(inner);
  timeline->end(outer);
  timeline->settle();
  std::vector<std::string> spans;
  for (const TimelineSpan& span : timeline->take())
    spans.push_back(fmt::format("{} {}-{}", span.name, MetaDevice::logged_operators(span.begin),
                                MetaDevice::logged_operators(span.end)));
  EXPECT_EQ(spans, (std::vector<std::string>{"forward 1-4", "fc1 2-4"}));
}

}  // namespace
}  // namespace dptrain
