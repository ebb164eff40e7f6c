#include "train/run_directory.h"

#include <gtest/gtest.h>

#include "support/expect_error.h"
#include "support/idx_files.h"
#include "support/process.h"

namespace dptrain::train {
namespace {

namespace fs = std::filesystem;
using testing::expect_error;
using testing::ScratchFolder;
using testing::text_of;

const std::vector<nn::NamedValues> kTensors = {{"weight", {2}, {1, 2}}};

TEST(RunDirectory, WritesItsFiles) {
  const ScratchFolder scratch;
  const fs::path path = scratch.path() / "runs/a";
  RunDirectory directory(path, false);
  directory.write_config("seed: 0\n");
  directory.append_metrics("{\"epoch\": 1}");
  directory.append_metrics("{\"epoch\": 2}");
  directory.append_step("{\"step\": 1}");
  directory.write_summary("{}");
  EXPECT_EQ(directory.write_weights(7, kTensors), path / "checkpoints/step-000007/model.safetensors");
  EXPECT_EQ(text_of(path / "config.yaml"), "seed: 0\n");
  EXPECT_EQ(text_of(path / "metrics.jsonl"), "{\"epoch\": 1}\n{\"epoch\": 2}\n");
  EXPECT_EQ(text_of(path / "steps.jsonl"), "{\"step\": 1}\n");
  EXPECT_EQ(text_of(path / "summary.json"), "{}\n");
}

TEST(RunDirectory, OneThatHasMetricsIsNotTouched) {
  const ScratchFolder scratch;
  { RunDirectory(scratch.path(), false).append_metrics("{}"); }
  expect_error(ExitCode::io, {"already has metrics", "--overwrite", "--out"},
               [&] { RunDirectory(scratch.path(), false); });
  EXPECT_EQ(text_of(scratch.path() / "metrics.jsonl"), "{}\n");
}

TEST(RunDirectory, OneThatNeverTrainedBeginsAgain) {
  const ScratchFolder scratch;
  { RunDirectory(scratch.path(), false).write_config("old"); }
  const RunDirectory directory(scratch.path(), false);
  EXPECT_FALSE(fs::exists(scratch.path() / "config.yaml"));
}

TEST(RunDirectory, WeightsOfAStoppedFirstEpochAreKept) {
  const ScratchFolder scratch;
  { RunDirectory(scratch.path(), false).write_weights(1, kTensors); }
  expect_error(ExitCode::io, {"checkpoints", "--overwrite"}, [&] { RunDirectory(scratch.path(), false); });
  EXPECT_TRUE(fs::exists(scratch.path() / "checkpoints/step-000001/model.safetensors"));
}

TEST(RunDirectory, WhatNoRunWroteIsNeverTouched) {
  const ScratchFolder scratch;
  fs::create_directories(scratch.path() / "checkpoints/mine");
  scratch.write("checkpoints/mine/w.pt", "precious");
  scratch.write("config.yaml", "mine");
  expect_error(ExitCode::io, {"checkpoints"}, [&] { RunDirectory(scratch.path(), false); });
  { const RunDirectory directory(scratch.path(), true); }
  EXPECT_EQ(text_of(scratch.path() / "checkpoints/mine/w.pt"), "precious");

  const ScratchFolder other;
  other.write("config.yaml", "mine");
  expect_error(ExitCode::io, {"config.yaml", "--out"}, [&] { RunDirectory(other.path(), false); });
  EXPECT_EQ(text_of(other.path() / "config.yaml"), "mine");
}

TEST(RunDirectory, OverwritingRemovesWhatARunLeftAndNothingElse) {
  const ScratchFolder scratch;
  scratch.write("notes.txt", "mine");
  {
    RunDirectory directory(scratch.path(), false);
    directory.write_config("");
    directory.append_metrics("{}");
    directory.append_step("{}");
    directory.write_summary("{}");
    directory.write_weights(1, kTensors);
  }
  const RunDirectory directory(scratch.path(), true);
  for (const char* file : {"config.yaml", "metrics.jsonl", "steps.jsonl", "summary.json", "checkpoints"})
    EXPECT_FALSE(fs::exists(scratch.path() / file)) << file;
  EXPECT_EQ(text_of(scratch.path() / "notes.txt"), "mine");
}

TEST(RunDirectory, IsHeldByOneAtATime) {
  const ScratchFolder scratch;
  {
    const RunDirectory first(scratch.path(), false);
    for (const bool overwrite : {false, true})
      expect_error(ExitCode::io, {"another process", "--out"}, [&] { RunDirectory(scratch.path(), overwrite); });
  }
  EXPECT_NO_THROW(RunDirectory(scratch.path(), false));
}

TEST(RunDirectory, WhatCannotBeAFolderIs74) {
  const ScratchFolder scratch;
  const fs::path file = scratch.write("file", "");
  for (const fs::path& path : {file, file / "below"})
    expect_error(ExitCode::io, {"file"}, [&] { RunDirectory(path, false); });
}

TEST(FindWeights, TakesAFileACheckpointOrARun) {
  const ScratchFolder scratch;
  RunDirectory directory(scratch.path(), false);
  const fs::path first = directory.write_weights(999'999, kTensors),
                 last = directory.write_weights(1'000'000, kTensors);
  EXPECT_EQ(find_weights(first), first);
  EXPECT_EQ(find_weights(first.parent_path()), first);
  EXPECT_EQ(find_weights(scratch.path()), last) << "the newest by number, not by letters";
  fs::create_directory(scratch.path() / "checkpoints/step-2000000");  // killed before it was written
  EXPECT_EQ(find_weights(scratch.path()), last);
}

TEST(FindWeights, SaysWhatItLookedFor) {
  const ScratchFolder scratch;
  expect_error(ExitCode::missing_file, {"nothing there", ".safetensors", "run directory"},
               [&] { find_weights(scratch.path() / "absent"); });
  expect_error(ExitCode::missing_file, {"neither"}, [&] { find_weights(scratch.path()); });
}

}  // namespace
}  // namespace dptrain::train
