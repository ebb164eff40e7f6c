#include "train/trainer.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <nlohmann/json.hpp>
#include <numeric>

#include "support/expect_error.h"
#include "support/idx_files.h"
#include "support/process.h"
#include "train/experiment_of.h"
#include "train/safetensors.h"
#include "train/strategy_context.h"

namespace dptrain::train {
namespace {

using testing::expect_error;
using testing::lines_of;
using testing::ScratchFolder;
using testing::text_of;

class TrainerTest : public ::testing::Test {
 protected:
  TrainingOutcome run(const std::vector<std::string>& overrides, size_t stop_after_steps = 0) {
    const Experiment experiment = experiment_of(overrides);
    StopSignal stop = 0;
    observer_ = std::make_unique<RecordingObserver>(&stop, stop_after_steps);
    directory_ = nullptr;
    directory_ = std::make_unique<RunDirectory>(scratch_.path(), EarlierRun::overwrite);
    return Trainer(experiment, experiment.dataset.open()).run(*directory_, *observer_, stop);
  }
  std::vector<std::string> lines(const char* file) const { return lines_of(text_of(scratch_.path() / file)); }

  ScratchFolder scratch_;
  std::unique_ptr<RecordingObserver> observer_;
  std::unique_ptr<RunDirectory> directory_;
};

/// Asks the run to stop as soon as the last epoch is reported.
class StopsAtTheEnd final : public TrainingObserver {
 public:
  StopsAtTheEnd(StopSignal& stop, int signal) : stop_(stop), signal_(signal) {}
  void on_epoch(const EpochMetrics& metrics) override {
    if (metrics.epoch == 2) stop_ = signal_;
  }

 private:
  StopSignal& stop_;
  int signal_;
};

TEST_F(TrainerTest, ASignalBehindTheLastStepStopsNothing) {
  const Experiment experiment = experiment_of({"epochs=2"});
  for (const auto& [signal, told] : {std::pair(SIGINT, 0), {SIGPIPE, SIGPIPE}}) {
    const ScratchFolder folder;
    RunDirectory directory(folder.path(), EarlierRun::refuse);
    StopSignal stop = 0;
    StopsAtTheEnd observer(stop, signal);
    const TrainingOutcome outcome = Trainer(experiment, experiment.dataset.open()).run(directory, observer, stop);
    EXPECT_EQ(outcome.signal, told) << "who has missed the last row is told";
    EXPECT_EQ(outcome.epochs, 2);
    EXPECT_EQ(outcome.last_line, lines_of(text_of(folder.path() / "metrics.jsonl")).back());
  }
}

TEST_F(TrainerTest, EpochsAreWholePassesOverTheData) {
  const TrainingOutcome outcome = run({});
  EXPECT_EQ(outcome.signal, 0);
  EXPECT_EQ(outcome.epochs, 2);
  EXPECT_EQ(outcome.steps, 6) << "batches of 16, 16 and 8 twice";
  ASSERT_EQ(observer_->epochs.size(), 2u);
  for (const EpochMetrics& epoch : observer_->epochs) {
    EXPECT_EQ(epoch.train.score.samples, 40);
    ASSERT_TRUE(epoch.test.has_value());
    EXPECT_EQ(epoch.test->score.samples, 70);
    EXPECT_EQ(epoch.devices.at(0).samples, 20);
    EXPECT_EQ(epoch.devices.at(1).samples, 20);
  }
  EXPECT_EQ(observer_->epochs[1].step, 6);
  EXPECT_EQ(lines("metrics.jsonl").size(), 2u);
  EXPECT_EQ(lines("metrics.jsonl")[1], observer_->epochs[1].json());
  EXPECT_EQ(observer_->epochs[1].weights_hash, outcome.weights_hash);
  EXPECT_EQ(weights_hash(read_safetensors(outcome.weights)), outcome.weights_hash);
  EXPECT_TRUE(lines("steps.jsonl").empty());
}

/// A job's watch has deadlines for loads and steps, but the first read of the data may take any time. A step isn't
/// begun before an earlier one has freed a place.
TEST_F(TrainerTest, WaitingForTheFirstBatchIsNoLoadYet) {
  run({"epochs=1", "eval_every=0", "checkpoint.every_epochs=0"});
  using Phase = std::pair<JobPhase, int64_t>;
  ASSERT_GE(observer_->phases.size(), 6u);
  EXPECT_EQ(observer_->phases[0], Phase(JobPhase::start, 0));
  EXPECT_EQ(observer_->phases[1], Phase(JobPhase::step, 1));
  EXPECT_EQ(observer_->phases[2], Phase(JobPhase::step, 1));
  EXPECT_EQ(observer_->phases[3], Phase(JobPhase::loading, 1));
  EXPECT_EQ(observer_->phases[4], Phase(JobPhase::step, 1));
  EXPECT_EQ(observer_->phases[5], Phase(JobPhase::step, 2));
}

TEST_F(TrainerTest, ProgressCountsSamplesAndEpochs) {
  run({"steps_in_flight=1"});
  ASSERT_EQ(observer_->steps.size(), 6u);
  const std::vector<int64_t> done = {16, 32, 40, 16, 32, 40};
  for (size_t i = 0; i < done.size(); ++i) {
    EXPECT_EQ(observer_->steps[i].samples_done, done[i]);
    EXPECT_EQ(observer_->steps[i].samples_of_epoch, 40);
    EXPECT_EQ(observer_->steps[i].epoch, static_cast<int64_t>(1 + i / 3));
    EXPECT_EQ(observer_->steps[i].epochs, 2);
  }
  // After the last step an evaluation is left, which takes about as long as the one before.
  const double evaluation_s = observer_->epochs[0].test->seconds;
  EXPECT_GE(observer_->steps.back().seconds_left, evaluation_s);
  EXPECT_LT(observer_->steps.back().seconds_left, evaluation_s + 1);
}

TEST_F(TrainerTest, ProgressCountsStepsUnderWayOnceTheyAreDone) {
  run({"steps_in_flight=2"});
  ASSERT_EQ(observer_->steps.size(), 6u);
  const std::vector<int64_t> given = {16, 32, 40, 16, 32, 40}, certain = {0, 16, 32, 0, 16, 32};
  for (size_t i = 0; i < given.size(); ++i) {
    EXPECT_LE(observer_->steps[i].samples_done, given[i]);
    EXPECT_GE(observer_->steps[i].samples_done, certain[i]);
  }
  for (const EpochMetrics& epoch : observer_->epochs) EXPECT_EQ(epoch.train.score.samples, 40);
}

TEST_F(TrainerTest, AugmentationsReachTrainingUnderEveryStrategyAndNothingElse) {
  const std::vector<std::string> augmented = {"augment=[random_crop: 2, flip, cutout]"};
  const TrainingOutcome ddp = run(augmented);
  EXPECT_EQ(run({augmented[0], "strategy=data_parallel"}).weights_hash, ddp.weights_hash);
  EXPECT_NE(run({}).weights_hash, ddp.weights_hash);
  // Unchanged weights must have the same test loss.
  const auto test_loss = [&](const char* augment) {
    run({augment, "learning_rate=1e-30", "epochs=1"});
    return observer_->epochs.at(0).test->score.mean_loss();
  };
  EXPECT_EQ(test_loss(augmented[0].c_str()), test_loss("augment=[]"));
}

TEST_F(TrainerTest, StepsEndInTheMiddleOfAnEpoch) {
  const TrainingOutcome outcome = run({"epochs=", "steps=5", "log_steps=true"});
  EXPECT_EQ(outcome.steps, 5);
  EXPECT_EQ(outcome.epochs, 2);
  ASSERT_EQ(observer_->epochs.size(), 2u);
  EXPECT_EQ(observer_->epochs[1].train.score.samples, 32);
  const auto steps = lines("steps.jsonl");
  ASSERT_EQ(steps.size(), 5u);
  const auto last = nlohmann::json::parse(steps[4]);
  EXPECT_EQ(last["step"], 5);
  EXPECT_EQ(last["epoch"], 2);
  EXPECT_EQ(last["samples"], 16);
  EXPECT_EQ(last["learning_rate"], 0.05);
}

TEST_F(TrainerTest, StepsThatFillEpochsBeginNoOther) {
  EXPECT_EQ(run({"epochs=", "steps=3"}).epochs, 1);
  EXPECT_EQ(lines("metrics.jsonl").size(), 1u);
}

TEST_F(TrainerTest, EvaluatesWhenAskedTo) {
  run({"eval_every=2", "epochs=5"});
  ASSERT_EQ(observer_->epochs.size(), 5u);
  for (const EpochMetrics& epoch : observer_->epochs) EXPECT_EQ(epoch.test.has_value(), epoch.epoch % 2 == 0);
  run({"eval_every=0", "epochs=1"});
  EXPECT_TRUE(nlohmann::json::parse(lines("metrics.jsonl")[0])["test"].is_null());
}

TEST_F(TrainerTest, ASignalStopsAfterTheStepInHandWithItsWeights) {
  const TrainingOutcome outcome = run({"log_steps=true"}, 4);
  EXPECT_EQ(outcome.signal, 2);
  EXPECT_EQ(outcome.steps, 4);
  EXPECT_EQ(outcome.epochs, 1) << "finished ones";
  EXPECT_EQ(lines("steps.jsonl").size(), 4u);
  EXPECT_EQ(lines("metrics.jsonl").size(), 1u);
  EXPECT_EQ(weights_hash(read_safetensors(outcome.weights)), outcome.weights_hash);
  const TrainingOutcome four = run({"epochs=", "steps=4"});
  EXPECT_EQ(outcome.weights_hash, four.weights_hash) << "the weights are those of four steps";
}

TEST_F(TrainerTest, ASignalDuringTheLastStepLeavesTheEvaluationOut) {
  const TrainingOutcome outcome = run({"epochs=1"}, 3);
  EXPECT_EQ(outcome.signal, 2);
  EXPECT_EQ(outcome.steps, 3);
}

TEST_F(TrainerTest, DivergenceEndsWithoutWeights) {
  for (const char* strategy : {"ddp", "data_parallel"}) {
    expect_error(ExitCode::diverged, {"step ", "epoch ", "training diverged", "no longer finite", "was 1e+30"}, [&] {
      run({std::string("strategy=") + strategy, "learning_rate=1e30"});
    });
    EXPECT_FALSE(std::filesystem::exists(scratch_.path() / "checkpoints"));
    EXPECT_TRUE(lines("metrics.jsonl").empty());
  }
}

TEST_F(TrainerTest, AModelThatCannotTakeTheImagesIsRefusedBeforehand) {
  const Experiment experiment = experiment_of({"dataset.shape=[1, 8, 8]"});
  expect_error(ExitCode::config, {"lenet", "16 x 16", "8 x 8"},
               [&] { require_model_fits(experiment, *experiment.dataset.open().train); });
  const Experiment idle = experiment_of({"model={layers: [global_avg_pool]}", "dataset.shape=[10, 8, 8]"});
  expect_error(ExitCode::config, {"model.layers: expected a layer with weights to train, got none; end with linear"},
               [&] { require_model_fits(idle, *idle.dataset.open().train); });
  const Experiment cut = experiment_of({"strategy={name: model_parallel, stages: [2, 2]}"});
  expect_error(ExitCode::config, {"strategy.stages", "add up to the model's 3", "2 + 2 = 4", "conv1, conv2, fc1"},
               [&] { require_model_fits(cut, *cut.dataset.open().train); });
  const Experiment good = experiment_of();
  EXPECT_NO_THROW(require_model_fits(good, *good.dataset.open().train));
}

}  // namespace
}  // namespace dptrain::train
