// TensorBoard shows of a run what metrics.jsonl and steps.jsonl contain.
#include "train/tensorboard_log.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "support/event_files.h"
#include "support/expect_error.h"
#include "support/full_disk.h"
#include "support/idx_files.h"
#include "support/process.h"
#include "train/event_scalars.h"
#include "train/experiment_of.h"
#include "train/run_directory.h"

namespace dptrain::train {
namespace {

using nlohmann::json;
using testing::Curves;

class TensorboardTest : public ::testing::Test {
 protected:
  /// Trains from the directory's newest checkpoint with these overrides; stops after `stop_after_steps` steps of this
  /// call, 0 for never.
  TrainingOutcome train(std::vector<std::string> overrides, size_t stop_after_steps = 0) {
    overrides.emplace_back("tensorboard=true");
    const Experiment experiment = experiment_of(overrides);
    StopSignal stop = 0;
    RecordingObserver observer(&stop, stop_after_steps);
    RunDirectory directory(run(), EarlierRun::resume);
    Trainer trainer(experiment, experiment.dataset.open(), {}, newest_checkpoint(directory.checkpoints(), {}));
    const TrainingPosition& position = trainer.position();
    directory.go_back_to(position.epochs + (position.reported ? 1 : 0), position.step);
    directory.write_config("seed: 0\n\nname: curves\n");
    return trainer.run(directory, observer, stop);
  }
  std::vector<json> lines(const char* file) const {
    std::vector<json> parsed;
    for (const std::string& line : testing::lines_of(testing::text_of(run() / file)))
      parsed.push_back(json::parse(line));
    return parsed;
  }
  Curves curves() const { return testing::curves_of(run() / "tb"); }
  /// Adds a curve's points from the lines of a file, where these have a number at `pointer`.
  void expect(Curves& curves, const std::string& tag, const char* file, const std::string& pointer) const {
    for (const json& line : lines(file)) {
      const json::json_pointer at(pointer);
      if (line.contains(at) && line.at(at).is_number())
        curves[tag].emplace_back(line["step"], line.at(at).get<float>());
    }
  }
  Curves curves_of_metrics() const {
    Curves curves;
    for (const std::string group : {"train", "validation", "test"})
      for (const std::string key : {"loss", "accuracy", "mlm_loss", "nsp_loss"})
        expect(curves, group + "/" + key, "metrics.jsonl", "/" + group + "/" + key);
    for (const std::string key : {"compute_s", "exposed_comm_s", "data_wait_s", "optimizer_s", "other_s"})
      expect(curves, "time/" + key, "metrics.jsonl", "/time/" + key);
    expect(curves, "learning_rate", "metrics.jsonl", "/learning_rate");
    expect(curves, "samples_per_s", "metrics.jsonl", "/train/samples_per_s");
    expect(curves, "comm/bytes", "metrics.jsonl", "/comm/bytes");
    expect(curves, "memory_imbalance", "metrics.jsonl", "/memory_imbalance");
    for (const json& line : lines("metrics.jsonl")) {
      float peak = 0;
      for (const json& device : line["devices"]) peak = std::max(peak, device["peak_bytes"].get<float>());
      curves["memory/peak_bytes"].emplace_back(line["step"], peak);
    }
    for (const std::string key : {"loss", "learning_rate", "mlm_loss", "nsp_loss"})
      expect(curves, "steps/" + key, "steps.jsonl", "/" + key);
    return curves;
  }
  std::filesystem::path run() const { return scratch_.path() / "run"; }

  testing::ScratchFolder scratch_;
};

TEST_F(TensorboardTest, CurvesAreThoseOfTheMetrics) {
  train({"epochs=3", "eval_every=2", "schedule=cosine"});
  EXPECT_EQ(curves(), curves_of_metrics());
  EXPECT_EQ(curves().size(), 14u) << "of train and test, 5 of times, 5 others";
  EXPECT_EQ(curves()["test/loss"].size(), 1u);
  EXPECT_EQ(curves()["train/loss"].size(), 3u);
}

TEST_F(TensorboardTest, StepsAreThereWhereTheyAreLogged) {
  train({"log_steps=true", "schedule=cosine", "strategy=data_parallel"});
  EXPECT_EQ(curves(), curves_of_metrics());
  EXPECT_EQ(curves()["steps/loss"].size(), 6u);
  EXPECT_EQ(curves()["steps/learning_rate"].size(), 6u);
}

TEST_F(TensorboardTest, AValidationAndTheLossesOfATextAreThere) {
  train({"model={name: bert, vocab: 80, hidden: 16, layers: 1, heads: 2, seq: 24}",
         "dataset={name: synthetic, samples: 40, test_samples: 10}", "validation={samples: 8}", "log_steps=true"});
  EXPECT_EQ(curves(), curves_of_metrics());
  for (const char* tag : {"train/mlm_loss", "test/nsp_loss", "validation/mlm_loss", "validation/accuracy",
                          "steps/mlm_loss", "steps/nsp_loss"})
    EXPECT_TRUE(curves().contains(tag)) << tag;
}

TEST_F(TensorboardTest, WhatOnlySomeTrainingsHaveIsThereForThem) {
  EpochMetrics metrics;
  metrics.skipped_steps = 2;
  const auto value = [&](const std::string& tag, Precision precision) {
    const auto scalars = epoch_scalars(metrics, precision);
    const auto found = std::ranges::find(scalars, tag, &TaggedScalar::tag);
    return found == scalars.end() ? -1 : found->value;
  };
  EXPECT_EQ(value("skipped_steps", Precision::fp16), 2);
  EXPECT_EQ(value("skipped_steps", Precision::bf16), -1);
  EXPECT_EQ(value("staleness/mean", Precision::fp32), -1);
  EXPECT_EQ(value("gradient_noise/scale", Precision::fp32), -1);
  metrics.train.score.noise = {.variance_sum = 12, .squared_norm_sum = 3, .samples = 4};
  EXPECT_EQ(value("gradient_noise/scale", Precision::fp32), 4);
  metrics.staleness = parallel::Staleness{.pushes = {1, 0, 1}};
  EXPECT_EQ(value("staleness/mean", Precision::fp32), 1);
  EXPECT_EQ(value("staleness/max", Precision::fp32), 2);
}

TEST_F(TensorboardTest, TheConfigurationIsATextLetterByLetter) {
  train({"epochs=1"});
  const auto files = testing::event_files(run() / "tb");
  ASSERT_EQ(files.size(), 1u);
  const auto events = testing::events_in(testing::text_of(files[0]));
  ASSERT_EQ(events.size(), 4u) << "version, session, configuration, epoch";
  EXPECT_TRUE(events[1].starts_session);
  EXPECT_EQ(events[1].step, 1);
  EXPECT_EQ(events[2].step, 1);
  EXPECT_EQ(events[2].texts,
            (std::vector<std::pair<std::string, std::string>>{{"config", "    seed: 0\n    \n    name: curves\n"}}));
  EXPECT_NEAR(events[0].wall_time, events[3].wall_time, 60);
}

/// An epoch has three steps: batches of 16, 16 and 8.
TEST_F(TensorboardTest, AResumedTrainingHasEachPointOnce) {
  const std::vector<std::string> overrides = {"epochs=3", "log_steps=true", "checkpoint={every_steps: 2, keep: 9}"};
  EXPECT_EQ(train(overrides, 8).signal, 2);
  // Removes files as if the run had been killed after the fourth checkpoint, in the middle of a record.
  std::filesystem::remove_all(run() / "checkpoints" / "step-000008");
  std::filesystem::remove_all(run() / "checkpoints" / "step-000006");
  const auto killed = testing::event_files(run() / "tb");
  ASSERT_EQ(killed.size(), 1u);
  append_bytes(killed[0], std::string(20, '\1').replace(0, 12, testing::text_of(killed[0]).substr(0, 12)), Sync::now);
  train(overrides);
  const auto files = testing::event_files(run() / "tb");
  ASSERT_EQ(files.size(), 2u);
  EXPECT_EQ(files[0], killed[0]);
  const auto events = testing::events_in(testing::text_of(files[1]));
  ASSERT_GE(events.size(), 5u);
  EXPECT_EQ(events[0].file_version, "brain.Event:2");
  EXPECT_TRUE(events[1].starts_session);
  EXPECT_EQ(events[1].step, 4) << "the last that both have";
  EXPECT_EQ(events[2].scalars.at(0).first, "steps/loss");
  EXPECT_TRUE(events[3].starts_session);
  EXPECT_EQ(events[3].step, 5);
  EXPECT_EQ(events[4].texts.at(0).first, "config");
  EXPECT_EQ(curves(), curves_of_metrics());
  EXPECT_EQ(curves()["steps/loss"].size(), 9u);
}

/// A run may be stopped in an epoch's evaluation, or before its checkpoint records that the epoch was reported.
TEST_F(TensorboardTest, AnEpochThatIsToldOfAnewIsForgottenWithoutItsLastStep) {
  train({"epochs=2", "log_steps=true"});
  RunDirectory(run(), EarlierRun::resume).go_back_to(1, 6);
  EXPECT_EQ(curves(), curves_of_metrics());
  EXPECT_EQ(curves()["train/loss"].size(), 1u);
  EXPECT_EQ(curves()["steps/loss"].size(), 6u);
}

/// steps.jsonl is cut in the same way, whatever `log_steps` says.
TEST_F(TensorboardTest, WhatARunGoesBackFromIsForgottenWhateverTheKeySays) {
  train({"epochs=3"});
  RunDirectory(run(), EarlierRun::resume).go_back_to(1, 3);
  EXPECT_EQ(curves(), curves_of_metrics());
  EXPECT_EQ(curves()["train/loss"].size(), 1u);
}

TEST_F(TensorboardTest, AFullDiskEndsTheTrainingWith74) {
  RunDirectory directory(run(), EarlierRun::refuse);
  TensorboardLog log(directory, 1, Precision::fp32);
  EpochMetrics metrics;
  log.add_epoch(metrics);
  const std::string before = testing::text_of(testing::event_files(run() / "tb").at(0));
  {
    const testing::FullDisk disk(before.size() + 10);
    testing::expect_error(ExitCode::io, {"tb/events.out.tfevents.", "could not write"},
                          [&] { log.add_epoch(metrics); });
  }
  EXPECT_EQ(testing::text_of(testing::event_files(run() / "tb").at(0)), before);
}

}  // namespace
}  // namespace dptrain::train
