// A pipeline's predicted bubble is its measured bubble. The stages sleep, so their times are known.
#include <gtest/gtest.h>

#include "parallel/pipeline_schedules.h"
#include "parallel/sleeping_net.h"

namespace dptrain::parallel {
namespace bubble_test {

constexpr int64_t kMicroBatches = 4, kSteps = 3;

/// The figures of a pipeline whose stages sleep for these times, or of several replicas of it.
PipelineFigures figures_of(const std::vector<Sleeps>& sleeps, PipelineSchedule schedule, int replicas = 1) {
  const int of_device = schedule == kInterleaved ? 2 : 1;
  std::vector<SleepingLayer> layers;
  for (const Sleeps& of_stage : sleeps) layers.push_back({.outputs = 10, .sleeps = of_stage});
  std::vector<std::string> cut(sleeps.size(), "1");
  cut.front() = "2";
  const StrategyOptions options{.name = replicas > 1 ? "hybrid" : "model_parallel",
                                .net = sleeping_net(layers),
                                .devices = replicas * static_cast<int>(sleeps.size()) / of_device,
                                .pipeline = {.cut = {.entries = cut},
                                             .schedule = schedule,
                                             .stages_per_device = of_device,
                                             .micro_batches = kMicroBatches,
                                             .replicas = replicas}};
  const auto strategy = make_strategy(options);
  train(*strategy, digits(kSteps * 8, 1), kSteps, 8, 0.1, kMicroBatches);
  return strategy->take_pipeline_figures().value();
}

/// Parameter: the schedule.
class Bubble : public ::testing::TestWithParam<PipelineSchedule> {
 protected:
  /// The error that a busy machine may add.
  static constexpr double kSlack = 0.08;
  static constexpr Sleeps kStage = {.forward_s = 0.02, .backward_s = 0.02, .weights_s = 0.02};
  /// The bubble of three equal stages.
  static double of_equal_stages() {
    return 2.0 / ((GetParam() == PipelineSchedule::zero_bubble ? 3 : 1) * kMicroBatches + 2);
  }
  static constexpr Sleeps kSlowStage = {.forward_s = 0.06, .backward_s = 0.06, .weights_s = 0.06};
};

TEST_P(Bubble, OfEqualStagesIsThatOfTheirNumber) {
  const PipelineFigures figures = figures_of({kStage, kStage, kStage}, GetParam());
  EXPECT_NEAR(figures.predicted_bubble, of_equal_stages(), kSlack / 2);
  ASSERT_TRUE(figures.bubble.has_value());
  EXPECT_NEAR(*figures.bubble, figures.predicted_bubble, kSlack);
}

TEST_P(Bubble, OfUnequalStagesIsThatOfTheSlowest) {
  const PipelineFigures figures = figures_of({kStage, kSlowStage, kStage}, GetParam());
  // The other stages work for a third of the slow stage's time.
  EXPECT_GT(figures.predicted_bubble, 4.0 / 9 - kSlack / 2);
  ASSERT_TRUE(figures.bubble.has_value());
  EXPECT_NEAR(*figures.bubble, figures.predicted_bubble, kSlack);
}

/// Each replica has a part of every micro-batch, and a stage sleeps as long as in a single pipeline.
TEST_P(Bubble, OfReplicasIsThatOfOne) {
  for (const auto& [middle, bubble] : {std::pair{kStage, of_equal_stages()}, {kSlowStage, 4.0 / 9}}) {
    const PipelineFigures figures = figures_of({kStage, middle, kStage}, GetParam(), 2);
    EXPECT_GT(figures.predicted_bubble, bubble - kSlack / 2);
    ASSERT_TRUE(figures.bubble.has_value());
    EXPECT_NEAR(*figures.bubble, figures.predicted_bubble, kSlack);
  }
}

INSTANTIATE_TEST_SUITE_P(Schedules, Bubble, ::testing::ValuesIn(kSchedulesOfOneStage),
                         [](const auto& test) { return "as_" + std::string(schedule_name(test.param)); });

TEST(InterleavedBubble, IsThatOfHalfAsLongStages) {
  constexpr double kSlack = 0.08;
  const Sleeps half = {.forward_s = 0.02, .backward_s = 0.04};
  for (const int replicas : {1, 2}) {
    const PipelineFigures figures = figures_of({half, half, half, half}, kInterleaved, replicas);
    EXPECT_NEAR(figures.predicted_bubble, 1.0 / (2 * kMicroBatches + 1), kSlack / 2);
    ASSERT_TRUE(figures.bubble.has_value());
    EXPECT_NEAR(*figures.bubble, figures.predicted_bubble, kSlack);
  }
}

}  // namespace bubble_test
}  // namespace dptrain::parallel
