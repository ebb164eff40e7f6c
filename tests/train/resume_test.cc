// A run that is stopped anywhere and resumed gives the bits, and reports the numbers, of an uninterrupted run.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "device/cuda_probe.h"
#include "support/expect_error.h"
#include "support/idx_files.h"
#include "support/process.h"
#include "train/experiment_of.h"
#include "train/run_directory.h"

namespace dptrain::train {
namespace {

using testing::expect_error;
using testing::ScratchFolder;

using Overrides = std::vector<std::string>;

/// A run directory in which an experiment is trained, stopped and resumed.
class ResumedRun {
 public:
  /// Trains from the directory's newest checkpoint; stops after `stop_after_steps` steps of this call, 0 for never.
  TrainingOutcome run(const Overrides& overrides, size_t stop_after_steps = 0) {
    const Experiment experiment = experiment_of(overrides);
    StopSignal stop = 0;
    RecordingObserver observer(&stop, stop_after_steps);
    RunDirectory directory(scratch_.path(), EarlierRun::resume);
    Trainer trainer(experiment, experiment.dataset.open(), {}, point(directory));
    finished_before_ = trainer.finished();
    const TrainingPosition& position = trainer.position();
    directory.go_back_to(position.epochs + (position.reported ? 1 : 0), position.step);
    return trainer.run(directory, observer, stop);
  }
  bool finished_before() const { return finished_before_; }

  /// The parts of each line of metrics.jsonl that must not depend on interruptions.
  std::vector<std::string> metrics() const {
    std::vector<std::string> numbers;
    for (const auto& line : testing::lines_of(testing::text_of(scratch_.path() / "metrics.jsonl"))) {
      auto metrics = nlohmann::json::parse(line);
      nlohmann::json samples;
      for (const auto& device : metrics["devices"]) samples.push_back(device["samples"]);
      numbers.push_back(nlohmann::json{metrics["epoch"], metrics["step"], metrics["train"]["loss"],
                                       metrics["train"]["accuracy"], metrics["train"]["samples"],
                                       metrics["test"]["loss"], metrics["learning_rate"], metrics["comm"],
                                       metrics["weights_hash"], metrics["gradient_noise"], samples}
                            .dump());
    }
    return numbers;
  }
  std::vector<std::string> steps() const {
    return testing::lines_of(testing::text_of(scratch_.path() / "steps.jsonl"));
  }
  std::filesystem::path path() const { return scratch_.path(); }

 private:
  static std::optional<ResumePoint> point(const RunDirectory& directory) {
    return newest_checkpoint(directory.checkpoints(), [](const std::string& what) { ADD_FAILURE() << what; });
  }

  ScratchFolder scratch_;
  bool finished_before_ = false;
};

/// Compares three epochs of three steps, uninterrupted and stopped: by default in the second epoch, or before it.
void expect_resumes(const Overrides& more, const std::vector<size_t>& stops = {3, 4, 5}) {
  Overrides overrides = {"epochs=3", "log_steps=true"};
  overrides.insert(overrides.end(), more.begin(), more.end());
  ResumedRun whole;
  const TrainingOutcome expected = whole.run(overrides);
  for (const size_t stop_after : stops) {
    SCOPED_TRACE(::testing::Message() << "stopped after " << stop_after << " steps");
    ResumedRun resumed;
    EXPECT_EQ(resumed.run(overrides, stop_after).signal, 2);
    const TrainingOutcome outcome = resumed.run(overrides);
    EXPECT_EQ(outcome.signal, 0);
    EXPECT_EQ(outcome.weights_hash, expected.weights_hash);
    EXPECT_EQ(resumed.metrics(), whole.metrics());
    EXPECT_EQ(resumed.steps(), whole.steps());
  }
}

class Resume : public ::testing::TestWithParam<std::tuple<const char*, const char*>> {};

TEST_P(Resume, EndsInTheSameBits) {
  const auto [strategy, optimizer] = GetParam();
  Overrides overrides = {std::string("strategy=") + strategy, std::string("optimizer=") + optimizer};
  if (strategy == std::string("single")) overrides.emplace_back("devices=[cpu:0]");
  expect_resumes(overrides);
}

INSTANTIATE_TEST_SUITE_P(
    Strategies, Resume,
    ::testing::Combine(::testing::Values("single", "data_parallel", "ddp", "kvstore"),
                       ::testing::Values("sgd", "{name: sgd, momentum: 0.9, weight_decay: 0.01}",
                                         "{name: sgd, momentum: 0.9, nesterov: true}", "adam", "adamw")),
    [](const auto& test) {
      const std::string optimizer = std::get<1>(test.param);
      const bool nesterov = optimizer.find("nesterov") != std::string::npos;
      const bool momentum = optimizer.find("momentum") != std::string::npos;
      return std::string(std::get<0>(test.param)) + "_" + (nesterov ? "nesterov" : momentum ? "momentum" : optimizer);
    });

/// Dropout, masked tokens and pairs are drawn anew each epoch.
TEST(Resume, OfAModelOfText) {
  for (const char* strategy : {"single", "data_parallel", "ddp"}) {
    SCOPED_TRACE(strategy);
    expect_resumes({"model={name: bert, vocab: 80, hidden: 16, layers: 2, heads: 2, seq: 24}",
                    "dataset={name: synthetic, samples: 40, test_samples: 10}", "optimizer=adamw",
                    std::string("strategy=") + strategy,
                    strategy == std::string("single") ? "devices=[cpu:0]" : "devices=[cpu:0, cpu:1]"});
  }
}

TEST(Resume, OfUpdatesThatAreDealtOut) {
  for (const char* strategy :
       {"{name: ddp, shard_optimizer: true}", "{name: kvstore, type: local}", "{name: ddp, overlap: next_forward}"})
    expect_resumes({std::string("strategy=") + strategy, "optimizer=adamw", "checkpoint={every_steps: 2}"});
  for (const char* precision : {"fp32", "bf16"})
    expect_resumes({"strategy=fsdp", std::string("precision=") + precision, "optimizer=adamw", "ema=0.9",
                    "checkpoint={every_steps: 2}"});
}

/// The runs are stopped between two averagings, and after one: weights are averaged after every second of nine steps.
TEST(Resume, OfReplicasThatTrainByThemselves) {
  const char* outer = "outer_learning_rate: 0.7, outer_momentum: 0.9";
  for (const auto& [optimizer, more] :
       {std::pair("{name: sgd, momentum: 0.9}", ""),
        {"adamw", ""},
        {"sgd", outer},
        {"adamw", "optimizer_state: own"},
        {"adamw", "optimizer_state: own, compress: two_bit"},
        {"sgd", "compress: {name: powersgd, rank: 2}, outer_learning_rate: 0.7, outer_momentum: 0.9"}})
    expect_resumes({std::string("strategy={name: local_sgd, period: 2, warmup_steps: 1, ") + more + "}",
                    std::string("optimizer=") + optimizer, "devices=[cpu:0-2]", "checkpoint={every_steps: 2}"});
}

/// The frozen weights are another seed's, so that newly drawn weights don't pass for kept ones.
TEST(Resume, WithWhatIsFrozen) {
  ResumedRun other;
  other.run({"epochs=1", "seed=9"});
  for (const char* strategy : {"data_parallel", "{name: ddp, shard_optimizer: true}", "fsdp", "kvstore",
                               "{name: model_parallel, stages: [1, 2], micro_batches: 2}"})
    expect_resumes({std::string("strategy=") + strategy, "optimizer=adamw", "ema=0.5", "freeze=[conv1, fc1.bias]",
                    "init={from: " + other.path().string() + "}"},
                   {4});
}

TEST(Resume, KeepsWhatCompressedGradientsLeaveOut) {
  for (const char* compress : {"{name: powersgd, rank: 2}", "two_bit", "bf16", "fp16"}) {
    SCOPED_TRACE(compress);
    expect_resumes({std::string("strategy={name: ddp, compress: ") + compress + "}", "devices=[cpu:0-2]",
                    "optimizer={name: sgd, momentum: 0.9}", "checkpoint={every_steps: 2}"},
                   {4});
  }
}

TEST(Resume, KeepsScheduleAverageAndAccumulation) {
  expect_resumes({"schedule={name: cosine, warmup_steps: 2}", "ema=0.5", "accumulate=2", "clip_norm=0.5",
                  "optimizer={name: sgd, momentum: 0.9}"});
}

TEST(Resume, InBf16) {
  for (const char* strategy : {"single", "data_parallel", "ddp"}) {
    SCOPED_TRACE(strategy);
    const Overrides common = {"precision=bf16", std::string("strategy=") + strategy,
                              strategy == std::string("single") ? "devices=[cpu:0]" : "devices=[cpu:0, cpu:1]"};
    Overrides lenet = common, bert = common;
    lenet.insert(lenet.end(), {"ema=0.5", "accumulate=2", "augment=[flip]", "optimizer={name: sgd, momentum: 0.9}"});
    expect_resumes(lenet, {4});
    bert.insert(bert.end(), {"model={name: bert, vocab: 80, hidden: 16, layers: 2, heads: 2, seq: 24}",
                             "dataset={name: synthetic, samples: 40, test_samples: 10}", "optimizer=adamw"});
    expect_resumes(bert, {4});
  }
}

TEST(Resume, KeepsRunningStatistics) {
  expect_resumes({"model=resnet18", "dataset={name: synthetic, samples: 12, test_samples: 6, shape: [1, 16, 16]}",
                  "batch_size=4", "optimizer={name: sgd, momentum: 0.9}", "checkpoint.every_epochs=0"},
                 {4});
}

TEST(Resume, KeepsWhatBatchNormsShare) {
  for (const char* mode : {"sync", "average", "first"}) {
    SCOPED_TRACE(mode);
    expect_resumes({"model={layers: [conv: {channels: 4, kernel: 3, stride: 2}, batch_norm, relu, flatten, "
                    "linear: classes]}",
                    "checkpoint={every_epochs: 0, every_steps: 2}", std::string("batch_norm=") + mode},
                   {4});
  }
}

TEST(Resume, AugmentsAsIfItHadNeverStopped) {
  expect_resumes({"augment=[random_crop: 2, flip, cutout]", "accumulate=2"});
}

TEST(CudaResume, AugmentsAsIfItHadNeverStopped) {
  if (cuda_devices().empty()) GTEST_SKIP() << "no GPU: " << cuda_absence();
  expect_resumes({"devices=[cuda:0]", "deterministic=true", "augment=[random_crop: 2, flip, cutout]"});
}

TEST(CudaResume, EndsInTheSameBits) {
  if (cuda_devices().empty()) GTEST_SKIP() << "no GPU: " << cuda_absence();
  for (const char* precision : {"fp32", "fp16"})
    expect_resumes({"devices=[cuda:0]", "optimizer=adamw", "deterministic=true", "ema=0.5",
                    std::string("precision=") + precision});
}

TEST(Resume, FromTheMiddleOfAnEpochWhereCheckpointsAreBySteps) {
  const Overrides overrides = {"epochs=2", "checkpoint={every_epochs: 0, every_steps: 2, keep: 9}", "log_steps=true"};
  ResumedRun whole, resumed;
  const TrainingOutcome expected = whole.run(overrides);
  std::vector<std::string> names;
  for (const auto& folder : checkpoint_folders(whole.path() / "checkpoints")) names.push_back(folder.filename());
  EXPECT_EQ(names, (std::vector<std::string>{"step-000002", "step-000004", "step-000006"}));
  // Removes files as if the run had been killed before the third checkpoint.
  std::filesystem::copy(whole.path(), resumed.path(), std::filesystem::copy_options::recursive);
  std::filesystem::remove_all(resumed.path() / "checkpoints/step-000006");
  EXPECT_EQ(resumed.run(overrides).weights_hash, expected.weights_hash);
  EXPECT_EQ(resumed.metrics(), whole.metrics());
  EXPECT_EQ(resumed.steps(), whole.steps());
}

TEST(Resume, GoesOnMeasuringTheNoiseOfGradients) {
  for (const char* name : {"ddp", "fsdp"})
    expect_resumes({"strategy={name: " + std::string(name) + ", gradient_noise: true}"});
}

TEST(Resume, AFinishedTrainingHasNothingLeft) {
  for (const Overrides& overrides : {Overrides{"epochs=1"}, Overrides{"epochs=", "steps=5"}}) {
    ResumedRun run;
    const TrainingOutcome first = run.run(overrides);
    EXPECT_FALSE(run.finished_before());
    const auto metrics = run.metrics();
    EXPECT_EQ(run.run(overrides).weights_hash, first.weights_hash);
    EXPECT_TRUE(run.finished_before());
    EXPECT_EQ(run.metrics(), metrics);
  }
}

TEST(Resume, MoreStepsGoOnWhereFewerEnded) {
  ResumedRun whole, longer;
  const TrainingOutcome expected = whole.run({"epochs=", "steps=8", "log_steps=true"});
  longer.run({"epochs=", "steps=5", "log_steps=true"});  // ends in the middle of the second epoch
  EXPECT_EQ(longer.run({"epochs=", "steps=8", "log_steps=true"}).weights_hash, expected.weights_hash);
  EXPECT_EQ(longer.metrics(), whole.metrics());
  EXPECT_EQ(longer.steps(), whole.steps());
}

TEST(Resume, OnOtherDevicesLearnsTheSame) {
  const Overrides two = {"epochs=2", "optimizer={name: sgd, momentum: 0.9}"};
  Overrides three = two;
  three.emplace_back("devices=[cpu:0-2]");
  ResumedRun whole, resumed;
  whole.run(two);
  resumed.run(two, 4);
  resumed.run(three);
  const auto loss = [](const ResumedRun& run, size_t epoch) -> double {
    return nlohmann::json::parse(run.metrics().at(epoch))[2];
  };
  EXPECT_EQ(loss(resumed, 0), loss(whole, 0));
  EXPECT_NEAR(loss(resumed, 1), loss(whole, 1), 1e-5 * loss(whole, 1));
}

TEST(Resume, RefusesAnotherTraining) {
  ResumedRun run;
  const Overrides trained = {"optimizer={name: sgd, momentum: 0.9}"};
  run.run(trained, 2);
  const auto refused = [&](const Overrides& more, std::initializer_list<std::string_view> words) {
    Overrides overrides = trained;
    overrides.insert(overrides.end(), more.begin(), more.end());
    expect_error(ExitCode::bad_data, words, [&] { run.run(overrides); });
  };
  refused({"batch_size=8"}, {"step-000002", "batch_size 8", "got 16"});
  refused({"seed=1"}, {"seed 1", "got 0"});
  refused({"dataset.samples=41"}, {"samples 41", "got 40", "dataset.samples, as they were, or leave out --resume"});
  refused({"model=resnet18"}, {"model resnet18", "got lenet"});
  refused({"optimizer=adam"}, {"optimizer adam", "got sgd"});
  refused({"optimizer=sgd"}, {"optimizer.safetensors", "nothing, got momentum_buffer", "optimizer.momentum"});
  refused({"freeze=[fc1, conv1]"}, {"expected a run with freeze conv1, fc1, got none"});
  refused({"dataset.shape=[1, 20, 20]"}, {"dataset.shape [1, 20, 20]", "got [1, 16, 16]"});
  refused({"dataset.normalize={mean: 0.5}"}, {"dataset.normalize {mean: [0.5], std: [1]}", "got none"});
  refused({"dataset.shuffle=false"}, {"dataset.shuffle false", "got true", "set the value that it was trained with"});
  EXPECT_NO_THROW(run.run(trained));
}

/// These options of a model change none of its tensors.
TEST(Resume, RefusesAnotherFunctionOfTheSameTensors) {
  const Overrides text = {"model={name: bert, vocab: 80, hidden: 16, layers: 1, heads: 2, seq: 24}",
                          "dataset={name: synthetic, samples: 40, test_samples: 10}", "optimizer=adamw"};
  Overrides other = text;
  other.emplace_back("model.heads=8");
  ResumedRun bert;
  bert.run(text, 2);
  expect_error(ExitCode::bad_data, {"step-000002: expected a run with model.heads 8, got 2; set the value that it was"},
               [&] { bert.run(other); });
  ResumedRun layers;
  layers.run({"model={layers: [flatten, linear: 8, relu, linear: classes]}"}, 2);
  expect_error(ExitCode::bad_data,
               {"expected a run with model.layers linear: {features: classes, ",
                "} for layer 2 of 3, got relu for layer 2 of 4"},
               [&] { layers.run({"model={layers: [flatten, linear: 8, linear: classes]}"}); });
  EXPECT_NO_THROW(layers.run({"model={layers: [flatten, linear: {features: 8}, relu: , linear: classes]}"}));
}

/// An epoch has three steps: 40 samples in batches of 16.
TEST(Resume, RefusesAPositionWhereNoTrainingIs) {
  const Experiment experiment = experiment_of();
  const Datasets data = experiment.dataset.open();
  ResumedRun run;
  run.run({}, 2);
  const auto point = newest_checkpoint(run.path() / "checkpoints", {});
  ASSERT_TRUE(point.has_value());
  const auto refused = [&](const TrainingPosition& position, std::initializer_list<std::string_view> words) {
    ResumePoint other = *point;
    other.checkpoint.position = position;
    expect_error(ExitCode::bad_data, words, [&] { Trainer(experiment, data, {}, other); });
  };
  refused({.step = 4, .batches = 4},
          {"manifest.json: position.batches: expected at most the 3 batches of an epoch, got 4"});
  refused({.step = 4, .epochs = 0, .batches = 2},
          {"position.step: expected the steps of 0 epochs with 3 batches each, plus 2, got 4; the file is damaged"});
  refused({.step = 1, .epochs = 1, .batches = 0}, {"position.step: expected the steps of 1 epochs with 3 batches"});
  refused({.step = 1, .epochs = 0, .batches = 2}, {"position.step: ", ", got 1"});
}

TEST(Resume, HowItIsComputedMayChange) {
  ResumedRun run;
  run.run({"epochs=1"}, 2);
  EXPECT_NO_THROW(run.run({"devices=[cpu:0]", "strategy=single", "threads=2", "precision=bf16", "epochs=2",
                           "batch_norm=sync", "learning_rate=0.01", "dataset.test_samples=20"}));
}

/// Manifests of such checkpoints name the model and the data set without their options.
TEST(Resume, CheckpointsFromBeforeOptionsWereKeptGoOn) {
  const Experiment experiment = experiment_of();
  const Datasets data = experiment.dataset.open();
  ResumedRun run;
  run.run({}, 2);
  auto point = newest_checkpoint(run.path() / "checkpoints", {});
  ASSERT_TRUE(point.has_value());
  const auto removed = std::erase_if(point->checkpoint.identity,
                                     [](const auto& entry) { return entry.first.find('.') != std::string::npos; });
  EXPECT_GE(removed, 4u) << "classes, shape, normalize and shuffle";
  EXPECT_EQ(std::erase(point->checkpoint.identity, std::pair<std::string, std::string>("freeze", "none")), 1u);
  EXPECT_NO_THROW(Trainer(experiment, data, {}, point));
  // In those versions all parameters were trained.
  expect_error(ExitCode::bad_data, {"freeze conv1, got none"},
               [&] { Trainer(experiment_of({"freeze=[conv1]"}), data, {}, point); });
}

}  // namespace
}  // namespace dptrain::train
