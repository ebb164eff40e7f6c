// `split: auto`: the faster device gets the larger part of every batch, wherever it is in the list. Here the test gives
// the speeds instead of measuring them.
#include <gtest/gtest.h>

#include <utility>

#include "support/process.h"
#include "train/experiment_of.h"
#include "train/strategy_context.h"
#include "train/wrapped_strategy.h"

namespace dptrain::train {
namespace {

/// The speeds that the test gives for the devices, and the arguments of the measurement.
struct Told {
  std::vector<double> samples_per_s;  ///< for each rank
  int64_t measured_with = 0;          ///< number of samples
  int measurements = 0;
};

/// A strategy that returns given speeds as measurements; the rest is its own.
class ToldSpeeds final : public WrappedStrategy {
 public:
  ToldSpeeds(std::unique_ptr<Strategy> inner, Told& told) : WrappedStrategy(std::move(inner)), told_(told) {}

  std::vector<double> measure_speeds(const Dataset&, int64_t samples) override {
    told_.measured_with = samples;
    ++told_.measurements;
    return told_.samples_per_s;
  }

 private:
  Told& told_;
};

Experiment experiment_with(Told& told, std::vector<std::string> overrides) {
  overrides.insert(overrides.end(), {"split=auto", "epochs=1"});
  Experiment experiment = experiment_of(overrides);
  experiment.strategy.make = [&told, make = experiment.strategy.make](const parallel::StrategyContext& context) {
    return std::make_unique<ToldSpeeds>(make(context), told);
  };
  return experiment;
}

/// The number of samples that each device trains in an epoch of 40 samples in batches of 16.
std::vector<int64_t> samples_with(Told& told, const std::vector<std::string>& overrides = {}) {
  const Experiment experiment = experiment_with(told, overrides);
  const testing::ScratchFolder folder;
  RunDirectory directory(folder.path(), EarlierRun::overwrite);
  RecordingObserver observer;
  StopSignal stop = 0;
  Trainer(experiment, experiment.dataset.open()).run(directory, observer, stop);
  std::vector<int64_t> samples;
  for (const auto& device : observer.epochs.at(0).devices) samples.push_back(device.samples);
  return samples;
}

TEST(MeasuredSplit, TheFasterDeviceTrainsAsManyMoreSamples) {
  Told told{.samples_per_s = {300, 100}};
  EXPECT_EQ(samples_with(told), (std::vector<int64_t>{12 + 12 + 6, 4 + 4 + 2}));
  EXPECT_EQ(told.measurements, 1);
  told.samples_per_s = {100, 300};
  EXPECT_EQ(samples_with(told), (std::vector<int64_t>{4 + 4 + 2, 12 + 12 + 6}));
}

TEST(MeasuredSplit, GoesByTheOrderOfTheList) {
  Told told{.samples_per_s = {100, 200, 500}};
  EXPECT_EQ(samples_with(told, {"devices=[cpu:2, cpu:0, cpu:1]"}),
            (std::vector<int64_t>{2 + 2 + 1, 4 + 4 + 2, 10 + 10 + 5}));
}

/// The first device's batch norms are used in evaluations, unless statistics are shared. Without batch norms, the
/// device may get no samples.
TEST(MeasuredSplit, TheFirstDeviceHasASampleWhereItsStatisticsEvaluate) {
  const std::string net =
      "model={layers: [conv: {channels: 4, kernel: 3, stride: 2}, batch_norm, relu, flatten, "
      "linear: classes]}";
  Told told{.samples_per_s = {1, 999}};
  for (const char* mode : {"local", "first"})
    EXPECT_EQ(samples_with(told, {net, std::string("batch_norm=") + mode}).at(0), 1 + 1 + 0) << mode;
  EXPECT_EQ(samples_with(told, {net, "accumulate=4"}).at(0), 4 + 4 + 0) << "of every whole micro-batch";
  EXPECT_EQ(samples_with(told, {net, "batch_norm=average"}).at(0), 0);
  EXPECT_EQ(samples_with(told).at(0), 0) << "LeNet";
}

TEST(MeasuredSplit, DevicesAreMeasuredWithWhatTheyWouldHaveOfAnEvenSplit) {
  Told told{.samples_per_s = {100, 100}};
  samples_with(told);
  EXPECT_EQ(told.measured_with, 8) << "of 16 on two";
  samples_with(told, {"accumulate=4"});
  EXPECT_EQ(told.measured_with, 2);
}

}  // namespace
}  // namespace dptrain::train
