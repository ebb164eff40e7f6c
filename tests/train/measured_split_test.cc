// `split: auto`: the faster device has the larger part of every batch, whatever its place in the list. Speeds are told
// here in place of measured.
#include <gtest/gtest.h>

#include <utility>

#include "support/process.h"
#include "train/experiment_of.h"
#include "train/strategy_context.h"

namespace dptrain::train {
namespace {

/// What the devices are said to compute, and what they were asked.
struct Told {
  std::vector<double> samples_per_s;  ///< by rank
  int64_t measured_with = 0;          ///< samples
  int measurements = 0;
};

/// A strategy whose measurements are told; the rest is its own.
class ToldSpeeds final : public parallel::Strategy {
 public:
  ToldSpeeds(std::unique_ptr<Strategy> inner, Told& told) : inner_(std::move(inner)), told_(told) {}

  std::vector<double> measure_speeds(const Dataset&, int64_t samples) override {
    told_.measured_with = samples;
    ++told_.measurements;
    return told_.samples_per_s;
  }

  std::vector<Device*> batch_devices() override { return inner_->batch_devices(); }
  BatchSplit batch_split() override { return inner_->batch_split(); }
  void set_split(const BatchSplit& split) override { inner_->set_split(split); }
  void train_step(std::shared_ptr<const Batch> batch, const parallel::StepNumbers& numbers) override {
    inner_->train_step(std::move(batch), numbers);
  }
  std::vector<parallel::Score> take_scores(bool all) override { return inner_->take_scores(all); }
  std::optional<parallel::Score> evaluate(const Dataset& dataset, const std::function<bool()>& stopped) override {
    return inner_->evaluate(dataset, stopped);
  }
  std::vector<nn::NamedValues> state_dict() override { return inner_->state_dict(); }
  parallel::TrainingState training_state() override { return inner_->training_state(); }
  void restore(const parallel::TrainingState& state) override { inner_->restore(state); }
  std::vector<parallel::WeightDigests> weight_digests() override { return inner_->weight_digests(); }
  int ranks() const override { return inner_->ranks(); }
  int world_size() const override { return ranks(); }
  int first_rank() const override { return 0; }
  const Device& device(int rank) const override { return inner_->device(rank); }
  parallel::RankCosts take_costs(int rank) override { return inner_->take_costs(rank); }
  CommWays sum_ways() override { return inner_->sum_ways(); }

 private:
  std::unique_ptr<Strategy> inner_;
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

/// The samples of an epoch of 40 in batches of 16 that each device trains.
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

/// Its batch norms evaluate, unless they share what they do; without any of them it may be left out.
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
