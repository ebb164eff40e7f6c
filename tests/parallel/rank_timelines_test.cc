// The timelines of a run's steps, under every strategy. Recording them changes no weight.
#include "parallel/rank_timelines.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "parallel/gpu_strategies.h"
#include "support/sanitizer.h"

namespace dptrain::parallel {
namespace rank_timelines_test {

constexpr ShownSteps kShown{.first = 3, .last = 5};
constexpr int64_t kLenetBytes = 4 * 129388;

struct Shown {
  Trained trained;
  std::vector<std::vector<TimelineRow>> ranks;
};

/// Trains six steps, and records the timelines of three of them.
Shown shown(const StrategyOptions& options) {
  StrategyContext context = context_of(options);
  context.team.has_timelines = true;
  const auto strategy = make_strategy(options, context);
  strategy->show_steps(kShown);
  const int64_t micro_batches = is_pipeline(options) ? options.pipeline.micro_batches : options.micro_batches;
  auto losses = train(*strategy, digits(96, 10), 6, 16, 0.05, micro_batches);
  auto ranks = strategy->take_timelines();
  return {.trained = {strategy->state_dict(), std::move(losses)}, .ranks = std::move(ranks)};
}

Trained unshown(const StrategyOptions& options) {
  const auto strategy = make_strategy(options);
  const int64_t micro_batches = is_pipeline(options) ? options.pipeline.micro_batches : options.micro_batches;
  auto losses = train(*strategy, digits(96, 10), 6, 16, 0.05, micro_batches);
  return {strategy->state_dict(), std::move(losses)};
}

const std::vector<TimelineSpan>& computing(const std::vector<TimelineRow>& rows) { return rows.at(0).spans; }
const std::vector<TimelineSpan>& communication(const std::vector<TimelineRow>& rows) { return rows.at(1).spans; }

/// Spans whose names begin with this name, and that are within `outer`.
std::vector<TimelineSpan> within(const std::vector<TimelineSpan>& spans, const TimelineSpan& outer,
                                 const std::string& name) {
  std::vector<TimelineSpan> inner;
  for (const TimelineSpan& span : spans)
    if (span.name.starts_with(name) && outer.begin <= span.begin && span.end <= outer.end) inner.push_back(span);
  return inner;
}

/// Phases of exactly this name that are within `outer`.
std::vector<TimelineSpan> phases_within(const std::vector<TimelineSpan>& spans, const TimelineSpan& outer,
                                        const std::string& name) {
  std::vector<TimelineSpan> phases = within(spans, outer, name);
  std::erase_if(phases, [&](const TimelineSpan& span) { return span.name != name || !span.is_phase; });
  return phases;
}

std::vector<TimelineSpan> steps_of(const std::vector<TimelineRow>& rows) {
  std::vector<TimelineSpan> steps;
  for (const TimelineSpan& span : computing(rows))
    if (span.name.starts_with("step ")) steps.push_back(span);
  return steps;
}

/// Expects exactly the requested steps, in order. Each has forward passes, backward passes and, unless other rows make
/// it, an update; their operators are within them.
void expect_steps(const std::vector<TimelineRow>& rows, size_t passes, bool updates) {
  const auto steps = steps_of(rows);
  ASSERT_EQ(steps.size(), 3U);
  for (size_t i = 0; i < steps.size(); ++i) {
    EXPECT_EQ(steps[i].name, "step " + std::to_string(kShown.first + static_cast<int64_t>(i)));
    EXPECT_TRUE(i == 0 || steps[i].begin >= steps[i - 1].end);
    const auto forward = within(computing(rows), steps[i], "forward"),
               backward = within(computing(rows), steps[i], "backward");
    ASSERT_EQ(forward.size(), passes) << steps[i].name;
    ASSERT_EQ(backward.size(), passes) << steps[i].name;
    EXPECT_FALSE(within(computing(rows), forward[0], "conv").empty());
    EXPECT_FALSE(within(computing(rows), backward[0], "conv").empty());
    EXPECT_TRUE(!updates || !within(computing(rows), steps[i], "sgd").empty());
  }
}

/// Expects every two spans of a thread to be nested or disjoint.
void expect_nested(const std::vector<TimelineSpan>& spans) {
  for (const TimelineSpan& a : spans)
    for (const TimelineSpan& b : spans) {
      if (a.thread != b.thread || a.begin > b.begin) continue;
      // A GPU's clock may stand still between two stamps: then either span is within the other.
      EXPECT_TRUE(b.begin >= a.end || b.end <= a.end || a.begin == b.begin) << a.name << " and " << b.name;
    }
}

TEST(RankTimelines, EveryStrategyShowsItsStepsAndEndsInTheSameBits) {
  for (const char* name : {"single", "data_parallel", "parallel_criterion", "ddp", "ddp_sharded", "fsdp", "kvstore",
                           "kvstore_local", "kvstore_dist_sync"}) {
    SCOPED_TRACE(name);
    const bool is_single = std::string(name) == "single";
    const StrategyOptions options{.name = name, .devices = is_single ? 1 : 2, .sgd = {.momentum = 0.9}};
    const Shown done = shown(options);
    expect_same_bits(done.trained, unshown(options));
    ASSERT_EQ(done.ranks.size(), is_single ? 1U : 2U);
    for (const auto& rows : done.ranks) {
      // Other strategies update on one device, in parts, or in the store.
      expect_steps(rows, 1, is_single || std::string(name) == "ddp");
      expect_nested(computing(rows));
      EXPECT_EQ(communication(rows).empty(), is_single);
    }
  }
}

TEST(RankTimelines, ABucketsSumBeginsWhileBackwardGoesOn) {
  const Shown done = shown({.buckets = {.bucket_mb = 0.1, .first_bucket_mb = 0.1}});
  const auto& rows = done.ranks[0];
  for (const TimelineSpan& step : steps_of(rows)) {
    const auto backward = within(computing(rows), step, "backward").front();
    const auto sums = within(communication(rows), step, "all_reduce");
    ASSERT_GT(sums.size(), 1U);
    EXPECT_LT(sums.front().begin, backward.end);
    int64_t bytes = 0;
    for (const TimelineSpan& sum : sums) bytes += sum.bytes;
    EXPECT_GE(bytes, kLenetBytes) << "all of LeNet's gradients, and what lies between them";
  }
}

TEST(RankTimelines, SumsThatTheNextStepWaitsForAreShown) {
  const Shown done = shown({.buckets = {.bucket_mb = 0.1, .first_bucket_mb = 0.1, .defer_updates = true}});
  for (const auto& rows : done.ranks) {
    const auto steps = steps_of(rows);
    ASSERT_EQ(steps.size(), 3U);
    int64_t bytes = 0;
    for (const TimelineSpan& span : communication(rows))
      if (span.name == "all_reduce") bytes += span.bytes;
    EXPECT_GE(bytes, 3 * kLenetBytes);
    EXPECT_LT(bytes, 4 * kLenetBytes);
  }
}

TEST(RankTimelines, AStageIsShownInForwardAndInBackward) {
  const Shown done = shown({.name = "single", .devices = 1});
  const auto& rows = done.ranks[0];
  const TimelineSpan step = steps_of(rows).front();
  for (const char* pass : {"forward", "backward"}) {
    const TimelineSpan whole = within(computing(rows), step, pass).front();
    for (const char* stage : {"conv1", "conv2", "fc1"}) {
      const auto parts = phases_within(computing(rows), whole, stage);
      ASSERT_EQ(parts.size(), 1U) << stage << " in " << pass;
      const bool is_convolution = std::string(stage).starts_with("conv");
      EXPECT_FALSE(within(computing(rows), parts[0], is_convolution ? "conv2d" : "linear").empty()) << stage;
    }
  }
  const auto convolution =
      within(computing(rows), phases_within(computing(rows), step, "conv2").front(), "conv2d").front();
  EXPECT_TRUE(convolution.operands.starts_with("[16, 20, 12, 12] [50, 20, 5, 5]")) << convolution.operands;
  EXPECT_EQ(convolution.flops, 2.0 * 16 * 50 * 64 * 20 * 25);
  EXPECT_GT(convolution.held_bytes, kLenetBytes);
}

TEST(RankTimelines, MicroBatchesOfAPipelineHaveTheirNumbers) {
  const StrategyOptions options{.name = "model_parallel", .pipeline = {.micro_batches = 4}};
  const Shown done = shown(options);
  expect_same_bits(done.trained, unshown(options));
  for (size_t rank = 0; rank < 2; ++rank) {
    const auto& rows = done.ranks[rank];
    for (const TimelineSpan& step : steps_of(rows))
      for (const char* pass : {"forward ", "backward "})
        for (int m = 1; m <= 4; ++m)
          EXPECT_EQ(within(computing(rows), step, pass + std::to_string(m)).size(), 1U) << pass << m;
    expect_nested(computing(rows));
    const std::string other = std::to_string(1 - rank);
    std::set<std::string> messages;
    for (const TimelineSpan& span : communication(rows)) messages.insert(span.name);
    EXPECT_TRUE(messages.contains("send to rank " + other));
    EXPECT_TRUE(messages.contains("receive from rank " + other));
  }
}

TEST(RankTimelines, ThreadsThatComputeShardsHaveRowsOfTheirOwn) {
  if (testing::kThreadSanitizer) GTEST_SKIP() << testing::kTeamsAreUnseen;
  StrategyOptions options{.name = "single", .devices = 1, .threads = 2};
  StrategyContext context = context_of(options);
  context.shards = 4;
  context.team.has_timelines = true;
  const auto strategy = make_strategy(options, context);
  strategy->show_steps(kShown);
  train(*strategy, digits(96, 10), 6, 16, 0.05);
  const auto ranks = strategy->take_timelines();
  std::set<int> threads;
  for (const TimelineSpan& span : computing(ranks[0]))
    if (span.name == "forward") threads.insert(span.thread);
  EXPECT_EQ(threads, (std::set<int>{1, 2}));
  expect_nested(computing(ranks[0]));
}

TEST(RankTimelines, WithoutThemNothingIsShown) {
  const auto strategy = make_strategy({});
  strategy->show_steps(kShown);
  train(*strategy, digits(64, 10), 4, 16, 0.05);
  EXPECT_TRUE(strategy->take_timelines().empty());
}

TEST_F(CudaStrategies, RecordedStepsAreShownAsOthers) {
  for (const char* name : {"single", "ddp"}) {
    SCOPED_TRACE(name);
    const bool is_single = std::string(name) == "single";
    const StrategyOptions options{
        .name = name, .devices = is_single ? 1 : 2, .list = is_single ? std::vector{kGpu} : std::vector{kGpu, kGpu}};
    const auto begun = Clock::now();
    const Shown done = shown(options);
    const auto ended = Clock::now();
    expect_same_bits(done.trained, unshown(options));
    for (const auto& rows : done.ranks) {
      expect_steps(rows, 1, true);
      expect_nested(computing(rows));
      EXPECT_EQ(communication(rows).empty(), is_single);
      const auto steps = steps_of(rows);
      // GPU times are converted to the host's clock.
      EXPECT_GT(steps.front().begin, begun);
      EXPECT_LT(steps.back().end, ended);
      // The first step was run directly or recorded; the others are replayed.
      for (const TimelineSpan& step : steps)
        EXPECT_EQ(within(computing(rows), step, "conv").size(), within(computing(rows), steps[0], "conv").size())
            << step.name;
      const auto operators = within(computing(rows), steps[2], "conv2d");
      EXPECT_FALSE(operators.front().operands.empty());
    }
  }
}

TEST_F(CudaStrategies, SumsThatARecordedStepHasAreShown) {
  const auto gpus = cuda_devices();
  if (gpus.size() < 2) GTEST_SKIP() << "needs 2 GPUs for sums over NCCL, there are " << gpus.size();
  const StrategyOptions options{.buckets = {.bucket_mb = 0.5, .first_bucket_mb = 0.1},
                                .list = {kGpu, {DeviceKind::cuda, 1}},
                                .deterministic = false};
  const Shown done = shown(options);
  for (const auto& rows : done.ranks) {
    expect_steps(rows, 1, true);
    for (const TimelineSpan& step : steps_of(rows)) {
      const auto sums = within(communication(rows), step, "all_reduce");
      ASSERT_FALSE(sums.empty()) << step.name;
      EXPECT_GT(sums[0].bytes, 0);
      EXPECT_LT(sums[0].begin, sums[0].end);
    }
  }
}

}  // namespace rank_timelines_test
}  // namespace dptrain::parallel
