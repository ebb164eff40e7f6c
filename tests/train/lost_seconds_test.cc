#include "train/lost_seconds.h"

#include <gtest/gtest.h>

#include "train/compared_runs.h"

namespace dptrain::train {
namespace {

/// An epoch of devices with these seconds of compute and the same number of samples, which update for 0.1 s.
EpochMetrics epoch_of(const std::vector<double>& compute_s, double exposed_comm_s, double seconds,
                      std::vector<int64_t> samples = {}) {
  EpochMetrics epoch;
  epoch.epoch = 1;
  epoch.train = {.score = {.samples = 1000}, .seconds = seconds};
  double sum = 0;
  for (size_t rank = 0; rank < compute_s.size(); ++rank) {
    sum += compute_s[rank];
    DeviceMetrics& device = epoch.devices.emplace_back();
    device.compute_s = compute_s[rank];
    device.busy = (compute_s[rank] + 0.1) / seconds;
    device.samples = samples.empty() ? 100 : samples[rank];
  }
  epoch.time.compute_s = sum / static_cast<double>(compute_s.size());
  epoch.time.exposed_comm_s = exposed_comm_s;
  epoch.time.optimizer_s = 0.1;
  epoch.time.other_s = seconds - epoch.time.compute_s - exposed_comm_s - 0.1;
  return epoch;
}

RunFigures run_of(const std::vector<EpochMetrics>& epochs, double units, DeviceKind kind = DeviceKind::cpu) {
  return {.run = "run",
          .strategy = "ddp",
          .devices = std::vector<std::string>(epochs[0].devices.size(), "cpu:0"),
          .trainings = {training_figures(epochs)},
          .power = ComputingPower{.kind = kind, .units = units}};
}

double sum_of(const LostSeconds& lost) {
  return lost.even_share_s + lost.compute_s + lost.straggler_s + lost.communication_s + lost.optimizer_s +
         lost.data_wait_s + lost.other_s;
}

TEST(LostSeconds, AddUpToTheSecondsOfTheRun) {
  const RunFigures first = run_of({epoch_of({9}, 0, 10)}, 1);
  for (const RunFigures& run :
       {run_of({epoch_of({3, 4}, 1.5, 6)}, 2),
        run_of({epoch_of({9, 9}, 9, 99), epoch_of({3, 4}, 1.5, 6), epoch_of({5, 3}, 2, 7)}, 2),
        run_of({epoch_of({9, 9}, 9, 99), epoch_of({3, 4}, 1.5, 6), epoch_of({5, 3}, 2, 7), epoch_of({3, 2}, 1, 5)}, 2),
        run_of({epoch_of({1, 4}, 1.5, 6, {0, 100})}, 2)}) {
    const auto lost = lost_seconds(first, run);
    ASSERT_TRUE(lost);
    EXPECT_DOUBLE_EQ(lost->even_share_s, 5);
    EXPECT_NEAR(sum_of(*lost), run.seconds_per_epoch(), 1e-12);
  }
}

TEST(LostSeconds, ADelayOfOneDeviceIsImbalance) {
  const RunFigures first = run_of({epoch_of({9}, 0, 10)}, 1);
  // Without a delay each device computes for 4.5 s and communicates for 0.3 s. With it, the second device takes 2 s
  // more, and the first waits for that.
  const auto even = lost_seconds(first, run_of({epoch_of({4.5, 4.5}, 0.3, 5)}, 2));
  const auto delayed = lost_seconds(first, run_of({epoch_of({4.5, 6.5}, 1.3, 7)}, 2));
  ASSERT_TRUE(even && delayed);
  EXPECT_NEAR(even->straggler_s, 0, 1e-12);
  EXPECT_NEAR(delayed->straggler_s, 2, 1e-12);
  EXPECT_NEAR(delayed->compute_s, even->compute_s, 1e-12);
  EXPECT_NEAR(delayed->communication_s, even->communication_s, 1e-12);
}

TEST(LostSeconds, AnUpdateThatOneDeviceMakesIsNoStraggler) {
  EpochMetrics epoch = epoch_of({4.5, 4.5}, 0.3, 5);
  epoch.devices[0].busy += 0.2 / 5;
  const auto lost = lost_seconds(run_of({epoch_of({9}, 0, 10)}, 1), run_of({epoch}, 2));
  ASSERT_TRUE(lost);
  EXPECT_EQ(lost->straggler_s, 0);
  EXPECT_NEAR(lost->communication_s, 0.3, 1e-12);
}

TEST(LostSeconds, WhatTheFirstRunSufferedAsWellIsNotLost) {
  const RunFigures first = run_of({epoch_of({4.5, 6.5}, 1.3, 7)}, 2);
  const auto same = lost_seconds(first, run_of({epoch_of({4.5, 6.5}, 1.3, 7)}, 2));
  const auto even = lost_seconds(first, run_of({epoch_of({4.5, 4.5}, 0.3, 5)}, 2));
  ASSERT_TRUE(same && even);
  for (const double part : {same->compute_s, same->straggler_s, same->communication_s, same->optimizer_s})
    EXPECT_NEAR(part, 0, 1e-12);
  EXPECT_NEAR(even->straggler_s, -2, 1e-12);
  EXPECT_NEAR(even->compute_s, 0, 1e-12);
  EXPECT_NEAR(even->communication_s, 0, 1e-12);
}

TEST(LostSeconds, StagesOfAPipelineMayDifferAndReplicasOfOneMayNot) {
  const RunFigures first = run_of({epoch_of({9}, 0, 10)}, 1);
  const auto pipeline_of = [](EpochMetrics epoch) {
    epoch.pipeline.emplace().stages = {{"features"}, {"classifier"}};
    return epoch;
  };
  const auto alone = lost_seconds(first, run_of({pipeline_of(epoch_of({4, 3}, 1, 5.5, {0, 100}))}, 2));
  ASSERT_TRUE(alone);
  EXPECT_EQ(alone->straggler_s, 0);
  // The second replica's first stage takes 0.8 s more, and three devices wait for it.
  const auto slow = lost_seconds(first, run_of({pipeline_of(epoch_of({2, 1.5, 2.8, 1.5}, 1, 4, {0, 100, 0, 100}))}, 4));
  ASSERT_TRUE(slow);
  EXPECT_NEAR(slow->straggler_s, 0.8, 1e-12);
  // With two stages per device, corresponding devices of the replicas still do the same work.
  EpochMetrics around = epoch_of({2, 1.5, 2.8, 1.5}, 1, 4, {0, 100, 0, 100});
  around.pipeline.emplace().stages = {{"conv1"}, {"conv2"}, {"fc1"}, {"fc2"}};
  around.pipeline->stages_per_device = 2;
  const auto slow_around = lost_seconds(first, run_of({around}, 4));
  ASSERT_TRUE(slow_around);
  EXPECT_NEAR(slow_around->straggler_s, 0.8, 1e-12);
}

TEST(LostSeconds, DevicesThatHaveOtherSamplesAreOnlyWaitedFor) {
  const auto lost = lost_seconds(run_of({epoch_of({9}, 0, 10)}, 1), run_of({epoch_of({3, 6}, 1.5, 7, {30, 70})}, 2));
  ASSERT_TRUE(lost);
  EXPECT_NEAR(lost->compute_s, 0, 1e-12);
  EXPECT_NEAR(lost->straggler_s, 1.5, 1e-12);
  EXPECT_NEAR(lost->communication_s, 0, 1e-12);
}

TEST(LostSeconds, AreOfLikeDevicesAlone) {
  const RunFigures cpu = run_of({epoch_of({9}, 0, 10)}, 1);
  EXPECT_FALSE(lost_seconds(cpu, run_of({epoch_of({9}, 0, 10)}, 1, DeviceKind::cuda)));
  RunFigures mixed = cpu;
  mixed.power.reset();
  EXPECT_FALSE(lost_seconds(cpu, mixed));
  EXPECT_FALSE(lost_seconds(mixed, cpu));
}

TEST(LostSeconds, OfEpochsThatAreCutOtherwiseAreForAsManySamples) {
  RunFigures first = run_of({epoch_of({9}, 0, 10)}, 1), run = run_of({epoch_of({2, 2}, 0.3, 2.5)}, 2);
  run.trainings[0].samples = 500;
  run.trainings[0].cut_short = true;
  EXPECT_DOUBLE_EQ(lost_seconds(first, run)->even_share_s, 2.5);
}

}  // namespace
}  // namespace dptrain::train
