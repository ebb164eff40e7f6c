#include "device/timeline.h"

#include <gtest/gtest.h>

#include <thread>

namespace dptrain {
namespace {

/// A timeline whose marks are numbers of a counter; a device's marks are places in its memory.
class CountingTimeline final : public Timeline {
 public:
  explicit CountingTimeline(int64_t most = 100) : most_(most) {}
  std::vector<int64_t> staying;

 private:
  int64_t mark(bool stays) override {
    if (marks_ == most_) return kNone;
    if (stays) staying.push_back(marks_);
    return marks_++;
  }
  std::vector<Clock::time_point> moments(const std::vector<int64_t>& marks) override {
    std::vector<Clock::time_point> moments;
    for (const int64_t mark : marks) moments.emplace_back(Clock::duration(10 * mark));
    return moments;
  }

  int64_t most_;
  int64_t marks_ = 0;
};

std::vector<std::string> names_of(const std::vector<TimelineSpan>& spans) {
  std::vector<std::string> names;
  for (const TimelineSpan& span : spans) names.push_back(span.name);
  return names;
}

using Names = std::vector<std::string>;

TEST(Timeline, SpansLieWithinTheOnesThatBeganBefore) {
  HostTimeline timeline;
  timeline.keep(true);
  {
    const InSpan step(&timeline, "step 1");
    const InSpan forward(&timeline, "forward");
    timeline.end(timeline.begin("conv2d"));
  }
  timeline.settle();
  const auto spans = timeline.take();
  ASSERT_EQ(names_of(spans), (Names{"step 1", "forward", "conv2d"}));
  for (size_t i = 0; i + 1 < spans.size(); ++i) {
    EXPECT_LE(spans[i].begin, spans[i + 1].begin);
    EXPECT_GE(spans[i].end, spans[i + 1].end);
    EXPECT_TRUE(spans[i].is_phase);
  }
  EXPECT_FALSE(spans.back().is_phase);
  EXPECT_TRUE(timeline.take().empty()) << "each is given once";
}

TEST(Timeline, NothingIsKeptThatNobodyAskedFor) {
  HostTimeline timeline;
  const int64_t before = timeline.begin("before");
  EXPECT_EQ(before, Timeline::kNone);
  timeline.multiplies(1e9);
  timeline.keep(true);
  timeline.end(before);
  timeline.end(timeline.begin("kept"));
  timeline.keep(false);
  EXPECT_EQ(timeline.begin("after"), Timeline::kNone);
  timeline.add({.name = "measured", .begin = {}, .end = {}});
  timeline.settle();
  const auto spans = timeline.take();
  ASSERT_EQ(names_of(spans), (Names{"measured", "kept"}));
  EXPECT_EQ(spans[1].flops, 0) << "told before anything was kept";
}

TEST(Timeline, AnOperatorHasWhatItsThreadHasToldOfIt) {
  HostTimeline timeline;
  timeline.keep(true);
  const int x = 0, w = 0;
  timeline.is_given(&x, "[64, 1, 28, 28]");
  timeline.is_given(&w, "[20, 1, 5, 5]");
  timeline.is_given(&x, "[64, 1, 28, 28]");
  timeline.multiplies(2e6);
  const int64_t outer = timeline.begin("conv2d");
  const int64_t inner = timeline.begin("reorder");
  timeline.goes_by("blocks");
  timeline.end(inner);
  timeline.goes_by("winograd");
  timeline.end(outer, 4096);
  timeline.settle();
  const auto spans = timeline.take();
  ASSERT_EQ(names_of(spans), (Names{"conv2d", "reorder"}));
  EXPECT_EQ(spans[0].operands, "[64, 1, 28, 28] [20, 1, 5, 5]") << "a tensor that is given twice counts once";
  EXPECT_EQ(spans[0].flops, 2e6);
  EXPECT_EQ(spans[0].way, "winograd");
  EXPECT_EQ(spans[0].held_bytes, 4096);
  EXPECT_EQ(spans[1].operands, "");
  EXPECT_EQ(spans[1].way, "blocks");
}

TEST(Timeline, ThreadsAreToldApart) {
  HostTimeline timeline;
  timeline.keep(true);
  const InSpan own(&timeline, "own");
  timeline.multiplies(5);
  std::thread([&] { timeline.end(timeline.begin("another's")); }).join();
  timeline.end(timeline.begin("mine"));
  timeline.settle();
  const auto spans = timeline.take();
  ASSERT_EQ(names_of(spans), (Names{"another's", "mine"})) << "one that hasn't ended isn't there";
  EXPECT_EQ(spans[0].thread, 1);
  EXPECT_EQ(spans[0].flops, 0);
  EXPECT_EQ(spans[1].thread, 0);
  EXPECT_EQ(spans[1].flops, 5);
}

TEST(Timeline, RecordedWorkIsShownWheneverItIsDone) {
  CountingTimeline timeline;
  timeline.record();
  const int64_t outer = timeline.begin("forward");
  timeline.end(timeline.begin("conv2d"));
  timeline.end(outer);
  const Timeline::Recording recording = timeline.take_recording();
  EXPECT_EQ(timeline.staying, (std::vector<int64_t>{0, 1, 2, 3})) << "marked again each time";
  timeline.repeat(recording);
  timeline.settle();
  EXPECT_TRUE(timeline.take().empty()) << "recording isn't doing, and nobody asked";

  timeline.keep(true);
  const int64_t step = timeline.begin("step 3");
  timeline.repeat(recording);
  timeline.end(step);
  timeline.settle();
  const auto spans = timeline.take();
  ASSERT_EQ(names_of(spans), (Names{"step 3", "forward", "conv2d"}));
  EXPECT_EQ(spans[1].begin, Clock::time_point(Clock::duration(0)));
  EXPECT_EQ(spans[1].end, Clock::time_point(Clock::duration(30)));
  EXPECT_EQ(spans[2].end, Clock::time_point(Clock::duration(20)));
}

TEST(Timeline, WhatFindsNoMoreMarksIsLeftOut) {
  CountingTimeline timeline(3);
  timeline.keep(true);
  timeline.end(timeline.begin("first"));
  const int64_t second = timeline.begin("second");
  timeline.end(second);
  EXPECT_EQ(timeline.begin("third"), Timeline::kNone);
  EXPECT_EQ(timeline.left_out(), 1);
  timeline.settle();
  EXPECT_EQ(names_of(timeline.take()), Names{"first"});
}

}  // namespace
}  // namespace dptrain
