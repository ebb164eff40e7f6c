// Held-out samples choose the best epoch, and end a run that no longer improves.
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "support/expect_error.h"
#include "support/process.h"
#include "train/best_link.h"
#include "train/checkpoint_files.h"
#include "train/experiment_of.h"
#include "train/training_warnings.h"
#include "train/validation_watch.h"

namespace dptrain::train {
namespace {

using testing::expect_error;
using testing::lines_of;
using testing::ScratchFolder;
using testing::text_of;

std::string line_of(int64_t epoch, double loss, double accuracy) {
  return nlohmann::json{
      {"epoch", epoch}, {"step", 10 * epoch}, {"validation", {{"loss", loss}, {"accuracy", accuracy}}}}
      .dump();
}

TEST(ValidationWatch, KeepsTheLowestLossOrTheHighestAccuracy) {
  const std::vector<std::string> lines = {line_of(1, 0.5, 0.7), line_of(2, 0.3, 0.8), line_of(3, 0.4, 0.9),
                                          line_of(4, 0.3, 0.9)};
  const auto best = watch_of({.samples = 10}, lines).best();
  ASSERT_TRUE(best);
  EXPECT_EQ(best->epoch, 2) << "and the fourth is as good, not better";
  EXPECT_EQ(best->step, 20);
  EXPECT_EQ(best->line, lines[1]);
  EXPECT_EQ(watch_of({.samples = 10, .monitor = Monitor::accuracy}, lines).best()->epoch, 3);
  EXPECT_FALSE(watch_of({.samples = 10}, {}).best());
}

TEST(ValidationWatch, IsOverAfterSoManyEvaluationsWithoutABetterOne) {
  ValidationWatch watch({.samples = 10, .patience = 2});
  const auto is_over_after = [&watch](const std::string& line) {
    watch.take(line);
    return watch.is_over();
  };
  EXPECT_FALSE(is_over_after(line_of(1, 0.5, 0.7)));
  EXPECT_FALSE(is_over_after(line_of(2, 0.6, 0.7)));
  EXPECT_FALSE(is_over_after(line_of(3, 0.4, 0.7)));
  EXPECT_FALSE(is_over_after(line_of(4, 0.4, 0.7)));
  // Lines without an evaluation, or of an older version, don't count.
  EXPECT_FALSE(is_over_after(R"({"epoch": 5, "step": 50, "validation": null})"));
  EXPECT_FALSE(is_over_after(R"({"epoch": 5, "step": 50})"));
  // Edited lines don't count either.
  EXPECT_FALSE(is_over_after(R"({"epoch": 5, "step": 50, "validation": {}})"));
  EXPECT_FALSE(is_over_after(R"({"epoch": 5, "step": 50, "validation": {"loss": "low", "accuracy": 0.5}})"));
  EXPECT_TRUE(is_over_after(line_of(6, 0.5, 0.7)));
  EXPECT_FALSE(watch_of({.samples = 10}, {line_of(1, 0.5, 0.7), line_of(2, 0.6, 0.7)}).is_over());
}

TEST(Validation, ItsMistakesSayWhatToWrite) {
  const auto refused = [](const std::vector<std::string>& overrides, std::initializer_list<std::string_view> words) {
    expect_error(ExitCode::config, words, [&] { experiment_of(overrides); });
  };
  refused({"validation={patience: 3}"}, {"validation.patience", "expected samples to be held out", "write samples"});
  refused({"validation={monitor: accuracy}"},
          {"validation.monitor", "expected samples to be held out", "write samples"});
  EXPECT_EQ(experiment_of({"validation={samples: 4, patience: 3}", "validation.samples=0"}).validation.samples, 0);
  expect_error(ExitCode::config, {"validation.samples", "got -1"}, [] {
    try {
      experiment_of({"validation={samples: -1, patience: 3}"});
    } catch (const Error& error) {
      EXPECT_EQ(std::string(error.what()).find("patience"), std::string::npos) << error.what();
      throw;
    }
  });
  refused({"validation={samples: 4}", "eval_every=3"}, {"eval_every", "within the 2 epochs", "one every 3"});
  refused({"validation={samples: 4, patience: 0}"}, {"validation.patience", "at least 1"});
  refused({"validation={samples: 4, monitor: top5}"}, {"validation.monitor", "loss", "accuracy", "'top5'"});
  refused({"validation={samples: 4}", "eval_every=0"}, {"eval_every", "got 0", "write eval_every: 1"});
  expect_error(ExitCode::config, {"validation.samples", "fewer than the 40 training samples, got 40"},
               [] { experiment_of({"validation={samples: 40}"}).dataset.open(); });
  EXPECT_EQ(experiment_of().dataset.open().validation, nullptr);
}

TEST(Validation, OneThatStepsNeverReachIsToldOf) {
  const auto warnings = [](const std::string& steps, const std::string& every) {
    const Experiment experiment =
        experiment_of({"epochs=", "steps=" + steps, "eval_every=" + every, "validation={samples: 8}"});
    return training_warnings(experiment, 32);  // two steps per epoch
  };
  // The epoch in which a run ends is evaluated, too.
  EXPECT_TRUE(warnings("3", "1").empty());
  EXPECT_TRUE(warnings("3", "2").empty());
  const auto told = warnings("3", "3");
  ASSERT_EQ(told.size(), 1u);
  EXPECT_NE(told[0].find("the 3 steps end before epoch 3"), std::string::npos) << told[0];
}

TEST(Validation, AFolderThatCantHaveLinksIsRefusedBeforeAnythingIsTrained) {
  const ScratchFolder scratch;
  require_links(scratch.path() / "run" / "checkpoints");
  EXPECT_TRUE(std::filesystem::is_empty(scratch.path() / "run" / "checkpoints"));
  // The file system has no links.
  expect_error(
      ExitCode::io,
      {"/proc/self: expected a folder in which a link to the best checkpoint can be made", "choose another --out"},
      [] { require_links("/proc/self"); });
}

class ValidatedTraining : public ::testing::Test {
 protected:
  /// After two epochs the learning rate is too small to change a weight, so no later epoch is better.
  static std::vector<std::string> overrides(std::vector<std::string> more = {}) {
    std::vector<std::string> all = {"epochs=9", "validation={samples: 12, patience: 2}",
                                    "schedule={name: step, every_epochs: 2, gamma: 1.0e-30}",
                                    "checkpoint={every_epochs: 2, keep: 2}"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  TrainingOutcome run(const std::vector<std::string>& more = {}, EarlierRun earlier = EarlierRun::overwrite) {
    const Experiment experiment = experiment_of(overrides(more));
    StopSignal stop = 0;
    RecordingObserver observer;
    RunDirectory directory(scratch_.path(), earlier);
    if (earlier == EarlierRun::overwrite) directory.remove_earlier_run();
    std::optional<ResumePoint> resume;
    if (earlier == EarlierRun::resume) resume = newest_checkpoint(directory.checkpoints(), {});
    Trainer trainer(experiment, experiment.dataset.open(), {}, resume);
    const TrainingPosition& position = trainer.position();
    if (resume) directory.go_back_to(position.epochs + (position.reported ? 1 : 0), position.step);
    return trainer.run(directory, observer, stop);
  }
  /// The evaluations and weights of each epoch.
  std::vector<std::string> epochs() const {
    std::vector<std::string> all;
    for (const auto& line : lines_of(text_of(scratch_.path() / "metrics.jsonl"))) {
      const auto epoch = nlohmann::json::parse(line);
      const auto loss = [&](const char* of) { return epoch[of].is_null() ? nlohmann::json() : epoch[of]["loss"]; };
      all.push_back(nlohmann::json{epoch["epoch"], loss("validation"), loss("test"), epoch["weights_hash"]}.dump());
    }
    return all;
  }
  std::filesystem::path checkpoints() const { return scratch_.path() / "checkpoints"; }

  ScratchFolder scratch_;
};

TEST_F(ValidatedTraining, EndsEarlyAndKeepsTheBest) {
  const TrainingOutcome outcome = run();
  ASSERT_TRUE(outcome.best);
  EXPECT_TRUE(outcome.stopped_early);
  EXPECT_EQ(outcome.signal, 0);
  EXPECT_EQ(outcome.epochs, outcome.best->epoch + 2);
  double least = 1e9;
  for (const auto& line : lines_of(text_of(scratch_.path() / "metrics.jsonl"))) {
    const auto epoch = nlohmann::json::parse(line);
    EXPECT_EQ(epoch["train"]["samples"], 28);
    EXPECT_EQ(epoch["validation"]["samples"], 12);
    const double loss = epoch["validation"]["loss"];
    EXPECT_EQ(epoch["test"].is_object(), loss < least) << "the best so far are tested: " << line;
    least = std::min(least, loss);
  }
  EXPECT_EQ(outcome.best->loss, least);
  EXPECT_EQ(linked_best(checkpoints()), checkpoint_name(outcome.best->step));
  const Checkpoint best = read_checkpoint(best_link(checkpoints()));
  EXPECT_EQ(best.position.step, outcome.best->step);
}

/// Even if the other checkpoints are much newer.
TEST_F(ValidatedTraining, TheBestCheckpointOutlivesNewerOnes) {
  const TrainingOutcome outcome = run({"validation={samples: 12}", "checkpoint={every_epochs: 1, keep: 2}"});
  ASSERT_TRUE(outcome.best);
  EXPECT_FALSE(outcome.stopped_early);
  EXPECT_EQ(outcome.epochs, 9);
  EXPECT_LE(outcome.best->epoch, 2);
  std::vector<std::string> names;
  for (const auto& folder : checkpoint_folders(checkpoints())) names.push_back(folder.filename());
  EXPECT_EQ(names,
            (std::vector<std::string>{checkpoint_name(outcome.best->step), checkpoint_name(16), checkpoint_name(18)}));
}

TEST_F(ValidatedTraining, AResumedOneEndsWhereAWholeOneDoes) {
  const TrainingOutcome whole = run();
  const auto expected = epochs();
  for (int64_t first = 1; first < whole.epochs; ++first) {
    SCOPED_TRACE(first);
    run({"epochs=" + std::to_string(first)});
    std::filesystem::remove(best_link(checkpoints()));  // as if killed before the link was made
    const TrainingOutcome resumed = run({}, EarlierRun::resume);
    EXPECT_EQ(resumed.weights_hash, whole.weights_hash);
    EXPECT_EQ(resumed.best->epoch, whole.best->epoch);
    EXPECT_TRUE(resumed.stopped_early);
    EXPECT_EQ(epochs(), expected);
    EXPECT_EQ(linked_best(checkpoints()), checkpoint_name(whole.best->step));
  }
}

TEST_F(ValidatedTraining, OneThatEndedEarlyIsFinishedUnlessItIsGivenMorePatience) {
  const TrainingOutcome first = run();
  const auto is_finished = [&](const std::vector<std::string>& more) {
    const Experiment experiment = experiment_of(overrides(more));
    const RunDirectory directory(scratch_.path(), EarlierRun::resume);
    const Trainer trainer(experiment, experiment.dataset.open(), {}, newest_checkpoint(directory.checkpoints(), {}));
    EXPECT_FALSE(trainer.finished());
    return trainer.finished_in(directory);
  };
  EXPECT_TRUE(is_finished({}));
  EXPECT_FALSE(is_finished({"validation.patience=3"}));
  const TrainingOutcome more = run({"validation.patience=3"}, EarlierRun::resume);
  EXPECT_GT(more.epochs, first.epochs);
}

/// No evaluation improves by the threshold, so with a patience of one every second epoch reduces the rate.
std::vector<std::string> reduced_every_second_epoch() {
  return {"validation={samples: 12}", "schedule={name: plateau, factor: 0.5, patience: 1, threshold: 0.99, min: 0.02}"};
}

TEST_F(ValidatedTraining, APlateauReducesTheRateOfTheEpochsBehindIt) {
  run(reduced_every_second_epoch());
  std::vector<double> rates;
  for (const auto& line : lines_of(text_of(scratch_.path() / "metrics.jsonl")))
    rates.push_back(nlohmann::json::parse(line)["learning_rate"]);
  const double base = experiment_of().learning_rate;
  ASSERT_EQ(rates.size(), 9u);
  double rate = base;
  for (size_t epoch = 1; epoch <= rates.size(); ++epoch) {
    EXPECT_DOUBLE_EQ(rates[epoch - 1], rate) << "epoch " << epoch;
    if (epoch > 1 && epoch % 2 == 1) rate = std::max(rate / 2, 0.02);
  }
  EXPECT_EQ(rate, 0.02);
}

TEST_F(ValidatedTraining, OneThatGoesOnHasTheRatesOfAWholeOne) {
  auto settings = reduced_every_second_epoch();
  const TrainingOutcome whole = run(settings);
  const auto expected = epochs();
  settings.emplace_back();
  for (const char* length : {"epochs=2", "epochs=3", "epochs=4"}) {
    SCOPED_TRACE(length);
    settings.back() = length;
    run(settings);
    settings.back() = "epochs=9";
    EXPECT_EQ(run(settings, EarlierRun::resume).weights_hash, whole.weights_hash);
    EXPECT_EQ(epochs(), expected);
  }
  // The run stops within the third epoch, which is then evaluated twice.
  auto shorter = settings;
  shorter.back() = "steps=5";
  shorter.emplace_back("epochs=");
  run(shorter);
  EXPECT_EQ(run(settings, EarlierRun::resume).weights_hash, whole.weights_hash);
  EXPECT_EQ(epochs(), expected);
}

/// Reductions that the old factor made remain.
TEST_F(ValidatedTraining, AnotherFactorCountsFromWhereItIsGiven) {
  auto settings = reduced_every_second_epoch();
  settings.emplace_back("epochs=4");
  run(settings);
  settings.back() = "epochs=6";
  settings.emplace_back("schedule.factor=0.9");
  run(settings, EarlierRun::resume);
  std::vector<double> rates;
  for (const auto& line : lines_of(text_of(scratch_.path() / "metrics.jsonl")))
    rates.push_back(nlohmann::json::parse(line)["learning_rate"]);
  ASSERT_EQ(rates.size(), 6u);
  EXPECT_DOUBLE_EQ(rates[4], 0.025);
  EXPECT_DOUBLE_EQ(rates[5], 0.9 * 0.025);
}

TEST(Validation, APlateauGoesByIt) {
  const auto expect_refused = [](const std::string& validation, std::initializer_list<std::string_view> words) {
    expect_error(ExitCode::config, words, [&] { experiment_of({"schedule=plateau", "validation=" + validation}); });
  };
  expect_refused("", {"--set: schedule: plateau follows the loss of samples that are held out, expected some, got none",
                      "--set validation.samples=5000"});
  expect_refused("{samples: 0}", {"validation.samples: expected samples to be held out", "write samples: 5000"});
  expect_error(ExitCode::config, {"validation: expected a mapping, got 200; write for instance"}, [] {
    try {
      experiment_of({"schedule=plateau", "validation=200"});
    } catch (const Error& error) {
      EXPECT_EQ(std::string(error.what()).find("plateau"), std::string::npos) << error.what();
      throw;
    }
  });
  EXPECT_EQ(experiment_of({"schedule=plateau", "validation={samples: 4}"}).schedule.plateau.patience, 10);
}

/// The checkpoints were moved away, or a run resumes from before its first evaluation.
TEST_F(ValidatedTraining, NoLinkLeadsNowhere) {
  const auto is_linked = [this] {
    return std::filesystem::exists(std::filesystem::symlink_status(best_link(checkpoints())));
  };
  const TrainingOutcome outcome = run();
  ASSERT_TRUE(is_linked());
  std::filesystem::remove_all(checkpoints() / checkpoint_name(outcome.best->step));
  link_best(checkpoints(), outcome.best->step);
  EXPECT_FALSE(is_linked());

  run({"checkpoint={every_steps: 1, keep: 50}"});
  ASSERT_TRUE(is_linked());
  for (const auto& folder : checkpoint_folders(checkpoints()))
    if (folder.filename() != checkpoint_name(1)) std::filesystem::remove_all(folder);
  run({"epochs=", "steps=1", "eval_every=2"}, EarlierRun::resume);
  EXPECT_FALSE(is_linked());
}

/// The best epoch's file would have been chosen by another figure, or with other samples.
TEST_F(ValidatedTraining, OtherHeldOutSamplesOrAnotherMonitorGoOnWithNoCheckpoint) {
  run({"epochs=2"});
  expect_error(ExitCode::bad_data, {"validation.samples 10, got 12"}, [&] {
    run({"validation.samples=10", "dataset.samples=38"}, EarlierRun::resume);
  });
  expect_error(ExitCode::bad_data, {"validation.samples 0, got 12"}, [&] {
    run({"validation=", "dataset.samples=28"}, EarlierRun::resume);
  });
  expect_error(ExitCode::bad_data, {"validation.monitor accuracy, got loss"},
               [&] { run({"validation.monitor=accuracy"}, EarlierRun::resume); });
}

TEST_F(ValidatedTraining, ABestCheckpointThatWasTakenAwayIsNotNamed) {
  const TrainingOutcome first = run({"validation={samples: 12}"});
  EXPECT_TRUE(first.best_is_linked);
  std::filesystem::remove_all(checkpoints() / checkpoint_name(first.best->step));
  const TrainingOutcome more = run({"validation={samples: 12}", "epochs=10"}, EarlierRun::resume);
  EXPECT_EQ(more.best->epoch, first.best->epoch);
  EXPECT_FALSE(more.best_is_linked);
}

TEST_F(ValidatedTraining, AnotherRunLeavesNothingOfIt) {
  run();
  RunDirectory(scratch_.path(), EarlierRun::overwrite).remove_earlier_run();
  EXPECT_FALSE(std::filesystem::exists(std::filesystem::symlink_status(best_link(checkpoints()))));
}

TEST_F(ValidatedTraining, WhatSomebodyHasCalledBestIsLeftAlone) {
  std::filesystem::create_directories(best_link(checkpoints()));
  expect_error(ExitCode::io, {"checkpoints/best", "expected a link", "got a folder", "another name"},
               [&] { run({}, EarlierRun::resume); });
  EXPECT_FALSE(std::filesystem::exists(scratch_.path() / "metrics.jsonl")) << "before the first step";
  EXPECT_TRUE(std::filesystem::is_directory(std::filesystem::symlink_status(best_link(checkpoints()))));
  std::filesystem::remove(best_link(checkpoints()));
  scratch_.write("checkpoints/best.new", "mine");
  expect_error(ExitCode::io, {"checkpoints/best.new", "got a file"}, [&] { run({}, EarlierRun::resume); });
  EXPECT_EQ(text_of(checkpoints() / "best.new"), "mine");
}

}  // namespace
}  // namespace dptrain::train
