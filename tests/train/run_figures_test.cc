#include "train/run_figures.h"

#include <gtest/gtest.h>

#include "train/compared_runs.h"

namespace dptrain::train {
namespace {

/// An epoch over these samples, with the memory peaks of its devices.
EpochMetrics epoch(int64_t number, double seconds, int64_t samples, std::vector<int64_t> peaks = {100}) {
  EpochMetrics metrics;
  metrics.epoch = number;
  metrics.train = {.score = {.samples = samples}, .seconds = seconds};
  metrics.time = {.compute_s = seconds / 2, .exposed_comm_s = seconds / 4, .other_s = seconds / 4};
  metrics.comm_bytes = 1000;
  for (const int64_t peak : peaks) metrics.devices.emplace_back().peak_bytes = peak;
  metrics.weights_hash = "hash" + std::to_string(number);
  return metrics;
}

EpochMetrics evaluated(EpochMetrics metrics, double accuracy) {
  const auto correct = static_cast<int64_t>(accuracy * 1000);
  metrics.test = Pass{.score = {.outputs = {{.correct = correct, .counted = 1000}}, .samples = 1000}};
  return metrics;
}

TEST(TrainingFigures, SecondsAreTheMedianOfTheEpochsAfterTheFirst) {
  const TrainingFigures figures =
      training_figures(std::vector{epoch(1, 90, 1000), epoch(2, 4, 1000), epoch(3, 2, 1000), epoch(4, 60, 1000)});
  EXPECT_EQ(figures.seconds_per_epoch, 4);
  EXPECT_EQ(figures.samples_per_s, 250);
  EXPECT_EQ(figures.time.exposed_comm_s, 1);
  EXPECT_EQ(figures.comm_bytes, 1000);
  EXPECT_FALSE(figures.straggler);
  EXPECT_EQ(figures.epochs, 4);
  EXPECT_EQ(figures.weights_hash, "hash4");
  EXPECT_EQ(training_figures(std::vector{epoch(1, 90, 1000), epoch(2, 4, 1000), epoch(3, 2, 1000)}).seconds_per_epoch,
            3)
      << "between the two in the middle";
  EXPECT_EQ(training_figures(std::vector{epoch(1, 90, 1000)}).seconds_per_epoch, 90);
}

TEST(TrainingFigures, SecondsToAnAccuracyAreOfTrainingUpToThatEvaluation) {
  const TrainingFigures figures =
      training_figures(std::vector{evaluated(epoch(1, 9, 1000), 0.5), epoch(2, 4, 1000),
                                   evaluated(epoch(3, 2, 1000), 0.9), evaluated(epoch(4, 1, 1000), 0.8)});
  EXPECT_EQ(figures.seconds_to(0.5), 9);
  EXPECT_EQ(figures.seconds_to(0.51), 15);
  EXPECT_EQ(figures.seconds_to(0.9), 15);
  EXPECT_FALSE(figures.seconds_to(0.91));
}

TEST(TrainingFigures, EpochsThatAreCutOtherwiseAreComparedForAsManySamples) {
  const auto run_of = [](double seconds, int64_t samples, int64_t data_samples) {
    return RunFigures{.run = "a",
                      .strategy = "single",
                      .devices = {"cpu:0"},
                      .trainings = {training_figures(std::vector{epoch(1, seconds, samples)}, data_samples)}};
  };
  // 100 and 50 samples per second.
  EXPECT_EQ(speedup(run_of(4, 400, 1000), run_of(2, 100, 1000)), 0.5);
  EXPECT_EQ(speedup(run_of(10, 1000, 1000), run_of(2, 100, 1000)), 0.5) << "one of them is whole";
  EXPECT_EQ(speedup(run_of(10, 1000, 1000), run_of(2, 100, 100)), 5) << "whole epochs of other data";
  EXPECT_EQ(speedup(run_of(4, 400, 1000), run_of(2, 400, 1000)), 2);
}

TEST(TrainingFigures, AnEpochThatWasCutShortDoesNotCount) {
  EpochMetrics whole = epoch(2, 4, 1000), cut_short = epoch(3, 1, 200);
  whole.straggler = Straggler{.rank = 1};
  cut_short.straggler = Straggler{.rank = 0};
  EXPECT_EQ(training_figures(std::vector{epoch(1, 9, 1000), whole, cut_short}).straggler->rank, 1);
  EXPECT_EQ(training_figures(std::vector{epoch(1, 9, 1000), epoch(2, 4, 1000), epoch(3, 1, 200)}).seconds_per_epoch, 4);
  EXPECT_EQ(training_figures(std::vector{epoch(1, 9, 1000), epoch(2, 1, 200)}).seconds_per_epoch, 9);
}

TEST(TrainingFigures, MemoryIsOfTheWorstEpochAndAccuracyOfTheLastEvaluation) {
  const TrainingFigures figures =
      training_figures(std::vector{evaluated(epoch(1, 1, 10, {100, 60}), 0.5),
                                   evaluated(epoch(2, 1, 10, {90, 80}), 0.75), epoch(3, 1, 10, {120, 70})});
  EXPECT_EQ(figures.peak_bytes, 120);
  EXPECT_EQ(figures.device_peak_bytes, (std::vector<int64_t>{120, 80}));
  EXPECT_DOUBLE_EQ(figures.memory_imbalance, 1.5) << "120 over 80";
  EXPECT_EQ(figures.accuracy, 0.75);
  EXPECT_EQ(training_figures(std::vector{epoch(1, 1, 10)}).accuracy, std::nullopt);
}

TEST(RunFigures, AreRelativeToTheFirst) {
  const RunFigures one = figures_of({.run = "one", .devices = 1, .seconds = {3, 5}, .accuracies = {0.8, 0.9}});
  const RunFigures four = figures_of({.run = "four", .devices = 4, .seconds = {2, 2}, .accuracies = {0.9, 0.9}});
  EXPECT_DOUBLE_EQ(speedup(one, four), 2);
  EXPECT_DOUBLE_EQ(efficiency(one, four), 0.5);
  EXPECT_DOUBLE_EQ(efficiency(four, one), 2);
  EXPECT_NEAR(accuracy_gap(std::vector{one, four}).value(), 0.05, 1e-12);
  const RunFigures unknown = figures_of({.run = "unknown", .accuracies = {}});
  EXPECT_EQ(accuracy_gap(std::vector{one, unknown}), std::nullopt);
}

TEST(RunFigures, DifferencesNeedTwoPairs) {
  const RunFigures once = figures_of({.run = "once"}), thrice = figures_of({.run = "thrice", .seconds = {1, 2, 3}});
  EXPECT_FALSE(seconds_difference(once, thrice)) << "as where a comparison was stopped";
  EXPECT_FALSE(accuracy_difference(thrice, thrice)) << "two of them have none";
  const RunFigures slower = figures_of({.run = "slower", .seconds = {1.5, 2.4, 3.6}});
  EXPECT_TRUE(seconds_difference(thrice, slower)->significant);
  const RunFigures noisy = figures_of({.run = "noisy", .seconds = {0.5, 2.4, 3.6}});
  EXPECT_FALSE(seconds_difference(thrice, noisy)->significant);
}

TEST(Advice, NamesWhatASlowRunSpendsItsTimeOn) {
  const RunFigures one = figures_of({.run = "single", .seconds = {0.6}});
  RunFigures two = figures_of({.run = "ddp", .devices = 2, .seconds = {1}, .exposed_comm_s = 0.71});
  two.device_batch = 128;
  // The step computes for 0.29 s, which leaves 0.31 s of 0.6 s for communication: 128 samples by 0.71 / 0.31 are 294.
  EXPECT_EQ(advice(one, two),
            "ddp, 2 devices: 0.6x; 71 % of the step is exposed communication; a larger batch per device would help: by "
            "these figures this run becomes the faster one at per_device_batch_size: 512");
  RunFigures never = figures_of({.run = "ddp", .devices = 2, .seconds = {1}, .exposed_comm_s = 0.39});
  never.device_batch = 128;
  EXPECT_TRUE(advice(one, never)->ends_with("a larger batch per device would help"))
      << "computing alone takes it longer";
  EXPECT_EQ(advice(two, one), std::nullopt) << "it is faster";
  RunFigures waiting = figures_of({.run = "waiting", .devices = 1, .seconds = {1}, .exposed_comm_s = 0.1});
  waiting.trainings[0].time.data_wait_s = 0.4;
  EXPECT_NE(advice(one, waiting)->find("1 device: 0.6x; 40 % of the step is waiting for data"), std::string::npos);
  const RunFigures computing = figures_of({.run = "ddp", .devices = 2, .seconds = {1}, .exposed_comm_s = 0.1});
  EXPECT_NE(advice(one, computing)->find("90 % of the step is computing"), std::string::npos);
  // This small share is all that the run is slower by.
  const RunFigures nearly = figures_of({.run = "ddp", .devices = 2, .seconds = {0.63}, .exposed_comm_s = 0.05});
  EXPECT_NE(advice(one, nearly)->find("8 % of the step is exposed communication; a larger batch"), std::string::npos)
      << *advice(one, nearly);
}

TEST(Advice, NamesTheDeviceThatTheOthersWaitFor) {
  const RunFigures one = figures_of({.run = "single", .seconds = {0.6, 0.6}});
  RunFigures two = figures_of({.run = "ddp", .devices = 2, .seconds = {1, 1}, .exposed_comm_s = 0.4});
  two.trainings[0].straggler = Straggler{.rank = 1, .slower = 5};
  EXPECT_TRUE(advice(one, two)->ends_with("; a larger batch per device would help")) << "once is no rule";
  two.trainings[1].straggler = Straggler{.rank = 1, .slower = 4};
  EXPECT_EQ(
      advice(one, two),
      "ddp, 2 devices: 0.6x; 40 % of the step is exposed communication; the others wait for rank 1 (cpu:1), which "
      "computes 4.0 times as long as they do");
}

TEST(Advice, IsNotGivenForWhatRepetitionsDoNotShow) {
  const RunFigures first = figures_of({.run = "a", .seconds = {1, 1.2, 0.9}, .accuracies = {}});
  EXPECT_EQ(advice(first, figures_of({.run = "b", .seconds = {1.3, 1, 0.95}, .accuracies = {}})), std::nullopt);
  EXPECT_TRUE(advice(first, figures_of({.run = "b", .seconds = {2, 2.2, 1.91}, .accuracies = {}})).has_value());
}

}  // namespace
}  // namespace dptrain::train
