#include "train/run_directory.h"

#include <gtest/gtest.h>

#include <array>
#include <set>

#include "base/file.h"
#include "support/event_files.h"
#include "support/expect_error.h"
#include "support/idx_files.h"
#include "support/process.h"
#include "train/checkpoint.h"
#include "train/event_record.h"

namespace dptrain::train {
namespace {

namespace fs = std::filesystem;
using testing::expect_error;
using testing::ScratchFolder;
using testing::text_of;

/// A checkpoint of this step in the run directory.
fs::path checkpoint_of(const RunDirectory& directory, int64_t step, const std::vector<nn::NamedValues>& average = {}) {
  Checkpoint checkpoint;
  checkpoint.state.average = average;
  checkpoint.position.step = step;
  checkpoint.state.model = {{"weight", {2}, {1, 2}}};
  return write_checkpoint(directory.checkpoints(), checkpoint, 5);
}

TEST(RunDirectory, WritesItsFiles) {
  const ScratchFolder scratch;
  const fs::path path = scratch.path() / "runs/a";
  RunDirectory directory(path, EarlierRun::refuse);
  directory.write_config("seed: 0\n");
  directory.append_metrics("{\"epoch\": 1}");
  directory.append_metrics("{\"epoch\": 2}");
  directory.append_step("{\"step\": 1}");
  for (const int64_t step : {1, 2}) directory.append_events(scalars_record(7, step, {{"loss", 0.5}}), Sync::now);
  directory.write_summary("{}");
  EXPECT_EQ(directory.checkpoints(), path / "checkpoints");
  EXPECT_EQ(text_of(path / "config.yaml"), "seed: 0\n");
  EXPECT_EQ(text_of(path / "metrics.jsonl"), "{\"epoch\": 1}\n{\"epoch\": 2}\n");
  EXPECT_EQ(text_of(path / "steps.jsonl"), "{\"step\": 1}\n");
  EXPECT_EQ(text_of(path / "summary.json"), "{}\n");
  EXPECT_EQ(testing::curves_of(path / "tb"), (testing::Curves{{"loss", {{1, 0.5F}, {2, 0.5F}}}}));
}

TEST(RunDirectory, OneThatHasMetricsIsNotTouched) {
  const ScratchFolder scratch;
  { RunDirectory(scratch.path(), EarlierRun::refuse).append_metrics("{}"); }
  expect_error(ExitCode::io, {"already has metrics", "--overwrite", "--out"},
               [&] { RunDirectory(scratch.path(), EarlierRun::refuse); });
  EXPECT_EQ(text_of(scratch.path() / "metrics.jsonl"), "{}\n");
}

TEST(RunDirectory, OneThatNeverTrainedBeginsAgain) {
  const ScratchFolder scratch;
  { RunDirectory(scratch.path(), EarlierRun::refuse).write_config("old"); }
  RunDirectory directory(scratch.path(), EarlierRun::refuse);
  directory.remove_earlier_run();
  EXPECT_FALSE(fs::exists(scratch.path() / "config.yaml"));
}

TEST(RunDirectory, WeightsOfAStoppedFirstEpochAreKept) {
  const ScratchFolder scratch;
  checkpoint_of(RunDirectory(scratch.path(), EarlierRun::refuse), 1);
  expect_error(ExitCode::io, {"checkpoints", "--overwrite"}, [&] { RunDirectory(scratch.path(), EarlierRun::refuse); });
  EXPECT_TRUE(fs::exists(scratch.path() / "checkpoints/step-000001/model.safetensors"));
}

TEST(RunDirectory, WhatNoRunWroteIsNeverTouched) {
  const ScratchFolder scratch;
  fs::create_directories(scratch.path() / "checkpoints/mine");
  scratch.write("checkpoints/mine/w.pt", "precious");
  scratch.write("config.yaml", "mine");
  expect_error(ExitCode::io, {"checkpoints"}, [&] { RunDirectory(scratch.path(), EarlierRun::refuse); });
  { RunDirectory(scratch.path(), EarlierRun::overwrite).remove_earlier_run(); }
  EXPECT_EQ(text_of(scratch.path() / "checkpoints/mine/w.pt"), "precious");

  const ScratchFolder other;
  other.write("config.yaml", "mine");
  expect_error(ExitCode::io, {"config.yaml", "--out"}, [&] { RunDirectory(other.path(), EarlierRun::refuse); });
  EXPECT_EQ(text_of(other.path() / "config.yaml"), "mine");
}

TEST(RunDirectory, OverwritingRemovesWhatARunLeftAndNothingElse) {
  const ScratchFolder scratch;
  scratch.write("notes.txt", "mine");
  {
    RunDirectory directory(scratch.path(), EarlierRun::refuse);
    directory.write_config("");
    directory.append_metrics("{}");
    directory.append_step("{}");
    directory.append_events(scalars_record(7, 1, {{"loss", 0.5}}), Sync::now);
    directory.write_summary("{}");
    checkpoint_of(directory, 1);
  }
  RunDirectory directory(scratch.path(), EarlierRun::overwrite);
  constexpr std::array kLeft = {"config.yaml", "metrics.jsonl", "steps.jsonl", "tb", "summary.json", "checkpoints"};
  for (const char* file : kLeft) EXPECT_TRUE(fs::exists(scratch.path() / file)) << file << ", before all is known";
  directory.remove_earlier_run();
  for (const char* file : kLeft) EXPECT_FALSE(fs::exists(scratch.path() / file)) << file;
  EXPECT_EQ(text_of(scratch.path() / "notes.txt"), "mine");
}

TEST(RunDirectory, CurvesAreKeptAsMetricsAre) {
  const ScratchFolder scratch;
  { RunDirectory(scratch.path(), EarlierRun::refuse).append_events(scalars_record(7, 1, {{"loss", 0.5}}), Sync::now); }
  expect_error(ExitCode::io, {"already has tb", "--overwrite", "--out"},
               [&] { RunDirectory(scratch.path(), EarlierRun::refuse); });
  RunDirectory directory(scratch.path(), EarlierRun::overwrite);
  directory.remove_earlier_run();
  EXPECT_FALSE(fs::exists(scratch.path() / "tb"));
  directory.append_events(scalars_record(7, 2, {{"loss", 0.5}}), Sync::now);
  EXPECT_EQ(testing::curves_of(scratch.path() / "tb"), (testing::Curves{{"loss", {{2, 0.5F}}}}));
}

TEST(RunDirectory, WhatLiesInAFilesPlaceIsNamedBeforeAnythingIsTrained) {
  const ScratchFolder scratch;
  fs::create_directories(scratch.path() / "run" / "metrics.jsonl");
  for (const EarlierRun earlier : {EarlierRun::overwrite, EarlierRun::resume})
    expect_error(ExitCode::io, {"run/metrics.jsonl: expected a file, as a run writes it, got a folder; move it away"},
                 [&] { RunDirectory(scratch.path() / "run", earlier); });
  EXPECT_TRUE(fs::is_directory(scratch.path() / "run" / "metrics.jsonl"));
  scratch.write("tb", "mine");
  expect_error(ExitCode::io, {"tb: expected a folder, as a run writes it, got a file; move it away"},
               [&] { RunDirectory(scratch.path(), EarlierRun::overwrite); });
}

TEST(RunDirectory, OverwritingLeavesALinkToAnotherDisk) {
  const ScratchFolder scratch;
  fs::create_directories(scratch.path() / "disk");
  fs::create_directories(scratch.path() / "run");
  fs::create_directory_symlink("../disk", scratch.path() / "run/checkpoints");
  RunDirectory directory(scratch.path() / "run", EarlierRun::overwrite);
  checkpoint_of(directory, 7);
  directory.remove_earlier_run();
  EXPECT_TRUE(fs::is_empty(scratch.path() / "disk"));
  checkpoint_of(directory, 8);
  EXPECT_TRUE(fs::exists(scratch.path() / "disk/step-000008/model.safetensors"));
}

TEST(RunDirectory, OverwritingLeavesCopiesThatSomebodyMadeOfCheckpoints) {
  const ScratchFolder scratch;
  {
    RunDirectory directory(scratch.path(), EarlierRun::refuse);
    directory.append_metrics("{}");
    const fs::path checkpoint = checkpoint_of(directory, 30);
    for (const char* own : {"step-000030-good", "step-000030.bak", "step-000030.tmp", "step-30", "best"})
      fs::copy(checkpoint, directory.checkpoints() / own, fs::copy_options::recursive);
    for (const char* left : {"step-000030.aside", "step-000030.aside.2", "step-000030.tmp-7"})
      fs::copy(checkpoint, directory.checkpoints() / left, fs::copy_options::recursive);
    write_file_atomically(directory.checkpoints() / "step-000030.tar.gz", "packed");
    write_file_atomically(directory.checkpoints() / "step-000031", "a file");
  }
  RunDirectory(scratch.path(), EarlierRun::overwrite).remove_earlier_run();
  std::set<std::string> left;
  for (const auto& entry : fs::directory_iterator(scratch.path() / "checkpoints"))
    left.insert(entry.path().filename().string());
  EXPECT_EQ(left, (std::set<std::string>{"best", "step-000030-good", "step-000030.bak", "step-000030.tar.gz",
                                         "step-000030.tmp", "step-000031", "step-30"}));
  EXPECT_TRUE(fs::exists(scratch.path() / "checkpoints/step-000030.bak/model.safetensors"));
}

TEST(RunDirectory, IsHeldByOneAtATime) {
  const ScratchFolder scratch;
  {
    const RunDirectory first(scratch.path(), EarlierRun::refuse);
    for (const EarlierRun earlier : {EarlierRun::refuse, EarlierRun::overwrite, EarlierRun::resume})
      expect_error(ExitCode::io, {"another process", "--out"}, [&] { RunDirectory(scratch.path(), earlier); });
  }
  EXPECT_NO_THROW(RunDirectory(scratch.path(), EarlierRun::refuse));
}

TEST(RunDirectory, OneThatIsRemovedOrRenamedIsNotMadeAnew) {
  const ScratchFolder scratch;
  const fs::path run = scratch.path() / "run", renamed = scratch.path() / "renamed";
  const auto expect_refused = [](RunDirectory& directory) {
    const auto expect_gone = [](const auto& write) {
      expect_error(ExitCode::io, {"run: ", "removed or renamed"}, write);
    };
    expect_gone([&] { directory.append_metrics("{}"); });
    expect_gone([&] { directory.append_step("{}"); });
    expect_gone([&] { directory.append_events("", Sync::now); });
    expect_gone([&] { directory.write_summary("{}"); });
    expect_gone([&] { directory.write_config("seed: 1\n"); });
    expect_gone([&] { directory.checkpoints(); });
    expect_gone([&] { directory.go_back_to(1, 1); });
    expect_gone([&] { directory.remove_earlier_run(); });
  };
  {
    RunDirectory first(run, EarlierRun::refuse);
    first.write_config("seed: 0\n");
    fs::rename(run, renamed);
    expect_refused(first);
    EXPECT_FALSE(fs::exists(run));
    fs::rename(renamed, run);
    EXPECT_NO_THROW(first.append_metrics("{}"));
    fs::remove_all(run);
    // And another run takes the name.
    RunDirectory second(run, EarlierRun::refuse);
    second.write_config("seed: 2\n");
    expect_refused(first);
    EXPECT_NO_THROW(second.append_metrics("{}"));
  }
  EXPECT_EQ(testing::text_of(run / "config.yaml"), "seed: 2\n");
  EXPECT_EQ(testing::text_of(run / "metrics.jsonl"), "{}\n");
}

TEST(RunDirectory, ALockThatIsAnothersStays) {
  const ScratchFolder scratch;
  const fs::path run = scratch.path() / "run";
  auto first = std::make_unique<RunDirectory>(run, EarlierRun::refuse);
  fs::remove_all(run);
  const RunDirectory second(run, EarlierRun::refuse);
  first.reset();
  expect_error(ExitCode::io, {"another process"}, [&] { RunDirectory(run, EarlierRun::refuse); });
}

TEST(RunDirectory, WhereNoRunWasBegunItIsAsItWasFound) {
  const ScratchFolder scratch;
  const fs::path path = scratch.path() / "runs/a";
  {
    const RunDirectory directory(path, EarlierRun::refuse);
    EXPECT_TRUE(fs::exists(path));
  }
  EXPECT_TRUE(fs::is_empty(scratch.path()));
  scratch.write("config.yaml", "mine");
  expect_error(ExitCode::io, {"config.yaml"}, [&] { RunDirectory(scratch.path(), EarlierRun::refuse); });
  EXPECT_FALSE(fs::exists(scratch.path() / ".lock"));
  { RunDirectory(path, EarlierRun::refuse).write_config(""); }
  { const RunDirectory again(path, EarlierRun::resume); }
  EXPECT_TRUE(fs::exists(path / ".lock")) << "that of a run stays";
}

// The link belongs to the user; its target may be on a disk that isn't mounted.
TEST(RunDirectory, LinksThatLeadNowhereStay) {
  const ScratchFolder scratch;
  const fs::path link = scratch.path() / "runs";
  fs::create_symlink(scratch.path() / "unmounted/runs", link);
  for (const fs::path& path : {link, link / "a"})
    expect_error(ExitCode::io, {"could not create the folder"}, [&] { RunDirectory(path, EarlierRun::refuse); });
  EXPECT_TRUE(fs::is_symlink(link));
}

TEST(RunDirectory, WhatCannotBeAFolderIs74) {
  const ScratchFolder scratch;
  const fs::path file = scratch.write("file", "");
  for (const fs::path& path : {file, file / "below"})
    expect_error(ExitCode::io, {"file", "could not create the folder", "choose another with --out"},
                 [&] { RunDirectory(path, EarlierRun::refuse); });
}

TEST(RunDirectory, GoesBackToWhereTrainingIsResumed) {
  const ScratchFolder scratch;
  {
    RunDirectory directory(scratch.path(), EarlierRun::refuse);
    for (int epoch = 1; epoch <= 3; ++epoch) directory.append_metrics("{\"epoch\": " + std::to_string(epoch) + "}");
    directory.append_events(session_record(7, 1), Sync::later);
    for (int step = 1; step <= 6; ++step) {
      directory.append_step("{\"step\": " + std::to_string(step) + ", \"loss\": 0.5}");
      directory.append_events(scalars_record(7, step, {{"steps/loss", 0.5}}), Sync::later);
    }
    directory.write_summary("{}");
  }
  scratch.write("metrics.jsonl",
                text_of(scratch.path() / "metrics.jsonl") + "{\"epoch\": 4, \"tr");  // as a full disk leaves it
  RunDirectory directory(scratch.path(), EarlierRun::resume);
  EXPECT_TRUE(fs::exists(scratch.path() / "summary.json")) << "not before it is known where to";
  EXPECT_EQ(directory.go_back_to(2, 4), std::vector<std::string>());
  EXPECT_EQ(text_of(scratch.path() / "metrics.jsonl"), "{\"epoch\": 1}\n{\"epoch\": 2}\n");
  EXPECT_EQ(testing::lines_of(text_of(scratch.path() / "steps.jsonl")).size(), 4u);
  EXPECT_EQ(testing::event_files(scratch.path() / "tb").size(), 2u);
  EXPECT_EQ(testing::curves_of(scratch.path() / "tb")["steps/loss"].size(), 4u);
  EXPECT_FALSE(fs::exists(scratch.path() / "summary.json"));
  EXPECT_EQ(directory.last_metrics(), "{\"epoch\": 2}");
}

TEST(RunDirectory, LinesThatNoRunWroteAreToldAndKeptAside) {
  const ScratchFolder scratch;
  RunDirectory directory(scratch.path(), EarlierRun::refuse);
  const std::string metrics = "{\"epoch\": 1}\ngarbage\n{\"epoch\": 3}\n{\"epoch\": 4}\n";
  scratch.write("metrics.jsonl", metrics);
  const auto damage = directory.go_back_to(3, 9);
  ASSERT_EQ(damage.size(), 2u);
  EXPECT_NE(damage[0].find("metrics.jsonl: line 2 is not one that a run writes"), std::string::npos) << damage[0];
  EXPECT_NE(damage[1].find("each epoch from 1 to 3, got 2 lines"), std::string::npos) << damage[1];
  EXPECT_EQ(text_of(scratch.path() / "metrics.jsonl"), "{\"epoch\": 1}\n{\"epoch\": 3}\n");
  EXPECT_EQ(text_of(scratch.path() / "metrics.jsonl.damaged"), metrics);
}

/// The best epoch is counted by these lines.
TEST(RunDirectory, EpochsThatAreAllMissingAreToldOf) {
  const ScratchFolder scratch;
  RunDirectory directory(scratch.path(), EarlierRun::refuse);
  const auto damage = directory.go_back_to(5, 9);
  ASSERT_EQ(damage.size(), 1u);
  EXPECT_NE(damage[0].find("metrics.jsonl: expected a line for each epoch up to 5, got none"), std::string::npos)
      << damage[0];
  EXPECT_EQ(directory.go_back_to(0, 3), std::vector<std::string>()) << "within the first one";
}

TEST(RunDirectory, EpochsOfAnotherRunAreNotMissed) {
  const ScratchFolder scratch;
  RunDirectory directory(scratch.path(), EarlierRun::refuse);
  scratch.write("metrics.jsonl", "{\"epoch\": 6}\n{\"epoch\": 7}\n");
  EXPECT_EQ(directory.go_back_to(7, 9), std::vector<std::string>()) << "it went on from epoch 5 of another";
}

TEST(RunDirectory, IsFinishedWhereItsSummarySaysSo) {
  const ScratchFolder scratch;
  RunDirectory directory(scratch.path(), EarlierRun::refuse);
  EXPECT_FALSE(directory.finished());
  EXPECT_EQ(directory.last_metrics(), "");
  for (const auto& [summary, is_finished] :
       {std::pair("{\"exit\": 0}", true), {"{\"exit\": 130}", false}, {"{}", false}, {"{\"exi", false}}) {
    directory.write_summary(summary);
    EXPECT_EQ(directory.finished().has_value(), is_finished) << summary;
  }
}

/// `cp -r run/*` makes such a copy, without the lock.
TEST(RunDirectory, ACopyOfARunIsGoneOnWith) {
  const ScratchFolder scratch;
  scratch.write("config.yaml", "model: lenet\n");
  expect_error(ExitCode::io, {"a config.yaml that no run wrote"},
               [&] { RunDirectory(scratch.path(), EarlierRun::resume); });
  scratch.write("metrics.jsonl", "{\"epoch\": 1}\n");
  RunDirectory directory(scratch.path(), EarlierRun::resume);
  EXPECT_EQ(directory.last_metrics(), "{\"epoch\": 1}");
}

TEST(FindWeights, TakesAFileACheckpointOrARun) {
  const ScratchFolder scratch;
  RunDirectory directory(scratch.path(), EarlierRun::refuse);
  const fs::path first = checkpoint_of(directory, 999'999) / "model.safetensors",
                 last = checkpoint_of(directory, 1'000'000) / "model.safetensors";
  EXPECT_EQ(find_weights(first), first);
  EXPECT_EQ(find_weights(first.parent_path()), first);
  EXPECT_EQ(find_weights(scratch.path()), last) << "the newest by number, not by letters";
  fs::create_directory(scratch.path() /
                       "checkpoints/step-2000000");  // of a process that was killed before it was written
  EXPECT_EQ(find_weights(scratch.path()), last);
}

/// A run with two checkpoints, the newest with an average.
class FindWeightsOfDamaged : public ::testing::Test {
 protected:
  FindWeightsOfDamaged() {
    const RunDirectory directory(scratch_.path(), EarlierRun::refuse);
    before_ = checkpoint_of(directory, 1) / "model.safetensors";
    newest_ = checkpoint_of(directory, 2, {{"weight", {2}, {3, 4}}});
  }
  static void flip_last_bit(const fs::path& file) {
    std::string bytes = text_of(file);
    bytes.back() = static_cast<char>(bytes.back() ^ 1);
    write_file_atomically(file, bytes);
  }
  void expect_refused(const fs::path& path, std::initializer_list<std::string_view> words) const {
    expect_error(ExitCode::bad_data, words, [&] { find_weights(path); });
    // Only a run has another checkpoint to name.
    if (path == scratch_.path()) return;
    expect_error(ExitCode::bad_data, words,
                 [&] { find_weights(path, [](const std::string& damage) { ADD_FAILURE() << damage; }); });
  }
  void expect_passed_over(std::string_view file) const {
    std::string told;
    EXPECT_EQ(find_weights(scratch_.path(), [&](const std::string& damage) { told += damage; }), before_);
    EXPECT_NE(told.find(file), std::string::npos) << told;
  }

  ScratchFolder scratch_;
  fs::path before_, newest_;
};

TEST_F(FindWeightsOfDamaged, ABitIsNamedAndTheCheckpointBeforeTaken) {
  const fs::path file = newest_ / "model.safetensors";
  EXPECT_EQ(find_weights(scratch_.path()), file);
  flip_last_bit(file);
  for (const fs::path& path : {file, newest_, scratch_.path()})
    expect_refused(path, {file.string(), ": expected SHA-256 ", ", got ", "; the file is damaged"});
  expect_passed_over("step-000002/model.safetensors");
}

TEST_F(FindWeightsOfDamaged, TheAverageIsPartOfTheWeights) {
  const fs::path file = newest_ / "average.safetensors";
  flip_last_bit(file);
  for (const fs::path& path : {file, newest_, newest_ / "model.safetensors"}) expect_refused(path, {file.string()});
  expect_passed_over("step-000002/average.safetensors");
  fs::remove(file);
  expect_refused(newest_, {file.string(), "expected this file, which manifest.json names, got none"});
}

TEST_F(FindWeightsOfDamaged, AMissingFileIsNamed) {
  fs::remove(newest_ / "model.safetensors");
  expect_refused(newest_, {"model.safetensors: expected this file, which manifest.json names, got none"});
  expect_passed_over("step-000002/model.safetensors");
}

TEST_F(FindWeightsOfDamaged, WhereAllAreNoneIsTaken) {
  flip_last_bit(before_);
  flip_last_bit(newest_ / "model.safetensors");
  expect_error(ExitCode::bad_data, {"checkpoints: expected an undamaged checkpoint, got 2 damaged"},
               [&] { find_weights(scratch_.path(), [](const std::string&) {}); });
}

TEST_F(FindWeightsOfDamaged, WeightsNeedNoOptimizerAndAFileNoManifest) {
  fs::remove(newest_ / "optimizer.safetensors");
  EXPECT_EQ(find_weights(newest_), newest_ / "model.safetensors");
  const fs::path alone = scratch_.path() / "model.safetensors";
  fs::copy(newest_ / "model.safetensors", alone);
  flip_last_bit(alone);
  EXPECT_EQ(find_weights(alone), alone) << "nobody knows what it was";
}

TEST(FindWeights, SaysWhatItLookedFor) {
  const ScratchFolder scratch;
  expect_error(ExitCode::missing_file, {"nothing there", ".safetensors", "run directory"},
               [&] { find_weights(scratch.path() / "absent"); });
  expect_error(ExitCode::missing_file, {"neither"}, [&] { find_weights(scratch.path()); });
}

}  // namespace
}  // namespace dptrain::train
