// When each stage of a pipeline does what, and the waiting times that follow.
#include "parallel/pipeline_schedule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>

#include "parallel/pipeline_schedules.h"

namespace dptrain::parallel {
namespace pipeline_schedule_test {

char letter_of(StageAction::Kind kind) {
  switch (kind) {
    case StageAction::Kind::forward: return 'F';
    case StageAction::Kind::backward_data: return 'D';
    case StageAction::Kind::backward_weights: return 'W';
    default: return 'B';
  }
}

/// Actions as text: "F0 F1 B0 F2 B1 B2".
std::string text_of(const std::vector<StageAction>& actions) {
  std::string text;
  for (const StageAction& action : actions) {
    if (!text.empty()) text += ' ';
    text += letter_of(action.kind) + std::to_string(action.micro_batch);
  }
  return text;
}

TEST(PipelineSchedule, GpipeGoesForwardWithAllAndThenBack) {
  const PipelineStep step{.schedule = kGpipe, .stages = 3, .micro_batches = 3};
  for (int stage = 0; stage < 3; ++stage) EXPECT_EQ(text_of(actions_of(step, stage)), "F0 F1 F2 B0 B1 B2");
}

TEST(PipelineSchedule, GpipeTakesAnAccumulationAtATime) {
  const PipelineStep step{.schedule = kGpipe, .stages = 2, .micro_batches = 5, .flush = 2};
  EXPECT_EQ(text_of(actions_of(step, 0)), "F0 F1 B0 B1 F2 F3 B2 B3 F4 B4");
}

TEST(PipelineSchedule, OneForwardOneBackWarmsUpByTheStagesBehind) {
  const PipelineStep step{.schedule = k1f1b, .stages = 3, .micro_batches = 4};
  EXPECT_EQ(text_of(actions_of(step, 0)), "F0 F1 F2 B0 F3 B1 B2 B3");
  EXPECT_EQ(text_of(actions_of(step, 1)), "F0 F1 B0 F2 B1 F3 B2 B3");
  EXPECT_EQ(text_of(actions_of(step, 2)), "F0 B0 F1 B1 F2 B2 F3 B3");
}

TEST(PipelineSchedule, ShortBatchesHaveFewerMicroBatchesThanStages) {
  const PipelineStep step{.schedule = k1f1b, .stages = 4, .micro_batches = 2};
  EXPECT_EQ(text_of(actions_of(step, 0)), "F0 F1 B0 B1");
  EXPECT_EQ(text_of(actions_of(step, 3)), "F0 B0 F1 B1");
  for (const auto schedule : kPipelineSchedules)
    EXPECT_EQ(text_of(actions_of({.schedule = schedule, .stages = 2, .micro_batches = 0}, 0)), "");
}

TEST(PipelineSchedule, ZeroBubbleKeepsGradientsOfWeightsForWhenItWouldWait) {
  PipelineStep step{.schedule = kZeroBubble, .stages = 3, .micro_batches = 4};
  EXPECT_EQ(text_of(actions_of(step, 0)), "F0 F1 F2 B0 F3 B1 B2 B3") << "nobody waits for what it gives back";
  EXPECT_EQ(text_of(actions_of(step, 1)), "F0 F1 D0 F2 D1 W0 F3 D2 W1 D3 W2 W3");
  EXPECT_EQ(text_of(actions_of(step, 2)), "F0 D0 F1 D1 F2 D2 W0 F3 D3 W1 W2 W3");
  step.micro_batches = 1;
  EXPECT_EQ(text_of(actions_of(step, 2)), "F0 D0 W0");
}

/// Actions as text with the stage, then the micro-batch: "F0.0 F2.0".
std::string text_of_stages(const std::vector<StageAction>& actions) {
  std::string text;
  for (const StageAction& action : actions)
    text += (text.empty() ? "" : " ") + (letter_of(action.kind) + std::to_string(action.stage)) + "." +
            std::to_string(action.micro_batch);
  return text;
}

PipelineStep interleaved(int devices, int stages_per_device, int64_t micro_batches) {
  return {.schedule = kInterleaved,
          .stages = devices * stages_per_device,
          .stages_per_device = stages_per_device,
          .micro_batches = micro_batches};
}

TEST(PipelineSchedule, InterleavedGoesAroundInRoundsOfAMicroBatchADevice) {
  EXPECT_EQ(text_of_stages(actions_of(interleaved(2, 2, 4), 0)),
            "F0.0 F0.1 F2.0 F2.1 F0.2 B2.0 F0.3 B2.1 F2.2 B0.0 F2.3 B0.1 B2.2 B2.3 B0.2 B0.3");
  EXPECT_EQ(text_of_stages(actions_of(interleaved(2, 2, 4), 1)),
            "F1.0 F1.1 F3.0 B3.0 F3.1 B3.1 F1.2 B1.0 F1.3 B1.1 F3.2 B3.2 F3.3 B3.3 B1.2 B1.3");
  EXPECT_EQ(text_of_stages(actions_of(interleaved(2, 2, 3), 1)),
            "F1.0 F1.1 F3.0 B3.0 F3.1 B3.1 F1.2 B1.0 B1.1 F3.2 B3.2 B1.2")
      << "as of four, without the last";
}

/// Expects each pass of each stage and micro-batch exactly once, and the passes of each in order.
void expect_whole(const PipelineStep& step) {
  using Kind = StageAction::Kind;
  struct Seen {
    int64_t forward = 0, data = 0, weights = 0;
  };
  std::map<int, Seen> stages;
  for (int device = 0; device < step.devices(); ++device)
    for (const StageAction& action : actions_of(step, device)) {
      EXPECT_EQ(action.stage % step.devices(), device);
      const Kind kind = action.kind;
      auto& [forward, data, weights] = stages[action.stage];
      if (kind == Kind::forward) {
        EXPECT_EQ(action.micro_batch, forward++);
      }
      if (kind == Kind::backward || kind == Kind::backward_data) {
        EXPECT_EQ(action.micro_batch, data++);
      }
      if (kind == Kind::backward || kind == Kind::backward_weights) {
        EXPECT_EQ(action.micro_batch, weights++);
      }
      EXPECT_LE(data, forward);
      EXPECT_LE(weights, data);
    }
  EXPECT_EQ(std::ssize(stages), step.stages);
  for (const auto& [stage, seen] : stages) {
    EXPECT_EQ(seen.forward, step.micro_batches);
    EXPECT_EQ(seen.data, step.micro_batches);
    EXPECT_EQ(seen.weights, step.micro_batches);
  }
}

TEST(PipelineSchedule, EveryMicroBatchGoesForwardAndBackOnceInOrder) {
  for (const auto schedule : kSchedulesOfOneStage)
    for (const int stages : {2, 3, 5})
      for (const int64_t micro_batches : {1, 4, 7})
        expect_whole({.schedule = schedule, .stages = stages, .micro_batches = micro_batches, .flush = 3});
  for (const int devices : {2, 3, 5})
    for (const int of_device : {2, 3})
      for (const int64_t micro_batches : {1, 4, 7}) expect_whole(interleaved(devices, of_device, micro_batches));
}

TEST(PipelineSchedule, OneForwardOneBackHoldsNoMoreThanTheStagesBehindNeed) {
  for (int stage = 0; stage < 4; ++stage) {
    const auto most = [&](PipelineSchedule schedule) {
      return *held_in(actions_of({.schedule = schedule, .stages = 4, .micro_batches = 8}, stage), stage).rbegin();
    };
    EXPECT_EQ(most(k1f1b), (HeldMicroBatches{.whole = 4 - stage, .weights = 0}));
    EXPECT_EQ(most(kGpipe), (HeldMicroBatches{.whole = 8, .weights = 0}));
    EXPECT_EQ(most(kZeroBubble), (HeldMicroBatches{.whole = 4 - stage, .weights = stage}));
  }
}

TEST(PipelineSchedule, ZeroBubbleHoldsAMicroBatchOfEachStage) {
  for (int stage = 0; stage < 4; ++stage)
    for (const auto& [whole, weights] :
         held_in(actions_of({.schedule = kZeroBubble, .stages = 4, .micro_batches = 8}, stage), stage)) {
      EXPECT_LE(whole, 4 - stage);
      EXPECT_LE(whole + weights, 4);
    }
}

TEST(PipelineSchedule, TheBubbleOfEqualStagesIsThatOfTheFormula) {
  for (const auto schedule : {kGpipe, k1f1b})
    for (const int stages : {2, 3, 4})
      for (const int64_t micro_batches : {4, 8, 31}) {
        const std::vector<StageSeconds> equal(static_cast<size_t>(stages), {.forward = 1, .backward = 2});
        const double bubble =
            predicted_bubble({.schedule = schedule, .stages = stages, .micro_batches = micro_batches}, equal);
        EXPECT_NEAR(bubble, (stages - 1.0) / (static_cast<double>(micro_batches) + stages - 1.0), 1e-12)
            << schedule_name(schedule) << ", " << stages << " stages, " << micro_batches << " micro-batches";
      }
}

TEST(PipelineSchedule, ZeroBubbleWaitsAThirdOfThat) {
  for (const int stages : {2, 3, 4, 8})
    for (const int64_t micro_batches : {8, 9, 31}) {
      const std::vector<StageSeconds> equal(static_cast<size_t>(stages),
                                            {.forward = 1, .backward = 1, .backward_weights = 1});
      const double bubble =
          predicted_bubble({.schedule = kZeroBubble, .stages = stages, .micro_batches = micro_batches}, equal);
      EXPECT_NEAR(bubble, (stages - 1.0) / (3 * static_cast<double>(micro_batches) + stages - 1.0), 1e-12)
          << stages << " stages, " << micro_batches << " micro-batches";
    }
}

TEST(PipelineSchedule, InterleavedWaitsForOneOfADevicesStagesOnly) {
  for (const int devices : {2, 3, 4, 8})
    for (const int of_device : {2, 3, 4})
      for (const int64_t rounds : {1, 2, 5}) {
        const PipelineStep step = interleaved(devices, of_device, rounds * devices);
        const std::vector<StageSeconds> equal(static_cast<size_t>(step.stages), {.forward = 1, .backward = 2});
        const auto passes = static_cast<double>(of_device * step.micro_batches);
        EXPECT_NEAR(predicted_bubble(step, equal), (devices - 1) / (passes + devices - 1), 1e-12)
            << devices << " devices, " << of_device << " stages each, " << step.micro_batches << " micro-batches";
      }
}

TEST(PipelineSchedule, InterleavedHoldsWhatGoesAroundBeforeTheFirstComesBack) {
  for (const int devices : {2, 3, 4, 8})
    for (const int of_device : {2, 3, 4})
      for (int64_t micro_batches = devices; micro_batches <= 3 * devices; ++micro_batches)
        for (int device = 0; device < devices; ++device) {
          int64_t held = 0, most = 0;
          for (const StageAction& action : actions_of(interleaved(devices, of_device, micro_batches), device)) {
            held += action.kind == StageAction::Kind::forward ? 1 : -1;
            most = std::max(most, held);
          }
          EXPECT_EQ(most, (of_device - 1) * devices + std::min<int64_t>(2 * (devices - 1 - device) + 1, micro_batches))
              << "device " << device << " of " << devices << ", " << of_device << " stages each, " << micro_batches
              << " micro-batches";
        }
}

/// The last round takes as long as a whole round, minus the work of its missing micro-batches on the device that
/// finishes last.
TEST(PipelineSchedule, AShortLastRoundOfInterleavedIsNoLongerThanAWholeOne) {
  for (const int devices : {2, 3, 4})
    for (const int of_device : {2, 3}) {
      const std::vector<StageSeconds> equal(static_cast<size_t>(devices * of_device), {.forward = 1, .backward = 2});
      for (int64_t micro_batches = devices + 1; micro_batches < 2 * devices; ++micro_batches) {
        const double seconds = step_seconds(interleaved(devices, of_device, micro_batches), equal);
        EXPECT_LT(seconds, step_seconds(interleaved(devices, of_device, int64_t{2} * devices), equal));
        EXPECT_GT(seconds, step_seconds(interleaved(devices, of_device, devices), equal));
      }
    }
}

TEST(PipelineSchedule, UnequalStagesWaitForTheSlowest) {
  // The second stage begins after 1 s and works 4 x 6 s without a pause; then the first stage makes a last backward
  // pass, 1 s. Of these 26 s the stages work 4 x 2 s and 4 x 6 s.
  const std::vector<StageSeconds> stages = {{.forward = 1, .backward = 1}, {.forward = 3, .backward = 3}};
  EXPECT_NEAR(predicted_bubble({.schedule = k1f1b, .stages = 2, .micro_batches = 4}, stages), 1 - 32.0 / 52, 1e-12);
  const std::vector<StageSeconds> nothing(2);
  EXPECT_EQ(predicted_bubble({.schedule = k1f1b, .stages = 2, .micro_batches = 4}, nothing), 0);
}

}  // namespace pipeline_schedule_test
}  // namespace dptrain::parallel
