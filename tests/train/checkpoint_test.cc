// Checkpoints are complete or don't exist, and reading returns what was written. Anything else is refused by name.
#include "train/checkpoint.h"

#include <gtest/gtest.h>
#include <sys/fsuid.h>

#include <algorithm>

#include "base/file.h"
#include "support/expect_error.h"
#include "support/full_disk.h"
#include "support/idx_files.h"
#include "support/process.h"
#include "train/checkpoint_files.h"

namespace dptrain::train {
namespace {

namespace fs = std::filesystem;
using testing::expect_error;
using testing::FullDisk;
using testing::ScratchFolder;
using testing::text_of;

Checkpoint checkpoint_at(int64_t step) {
  Checkpoint checkpoint{
      .identity = {{"model", "lenet"}, {"batch_size", "64"}},
      .config_hash = "abc",
      .devices = {"cpu:0", "cpu:1"},
      .position = {.step = step,
                   .epochs = 2,
                   .batches = 3,
                   .score = {.outputs = {{.loss_sum = 0.1 + 0.2, .correct = 7, .counted = 8}}, .samples = 9},
                   .seconds = 1.5,
                   .data_wait_s = 0.25,
                   .learning_rate = 0.1,
                   .costs = std::vector<parallel::RankCosts>(2),
                   .reported = true},
      .state = {.model = {{"b", {2}, {1, 2}}, {"a.weight", {1, 3}, {3, 4, 5}}},
                .optimizer = {{"momentum_buffer.b", {2}, {6, 7}}},
                .average = {},
                .loss_scale = optim::LossScaleNumbers{.scale = 512, .good = 3, .skipped = 4}}};
  parallel::RankCosts& costs = checkpoint.position.costs[1];
  costs.times[parallel::Phase::compute] = 0.1;
  costs.samples = 32;
  costs.graph_steps = 21;
  costs.peak_bytes = 1000;
  costs.memory_at_peak[MemoryPurpose::gradients] = 600;
  costs.communication = {.bytes = 77, .collectives = 2};
  return checkpoint;
}

TEST(Checkpoint, IsReadAsItWasWritten) {
  const ScratchFolder scratch;
  const Checkpoint written = checkpoint_at(12);
  const fs::path folder = write_checkpoint(scratch.path(), written, 3);
  EXPECT_EQ(folder, scratch.path() / "step-000012");
  const Checkpoint read = read_checkpoint(folder);
  EXPECT_EQ(read.identity, written.identity);
  EXPECT_EQ(read.config_hash, "abc");
  EXPECT_EQ(read.devices, written.devices);
  EXPECT_EQ(read.position.mark(), written.position.mark());
  ASSERT_EQ(read.position.score.outputs.size(), 1u);
  const auto &output = read.position.score.outputs[0], &before = written.position.score.outputs[0];
  EXPECT_EQ(output.loss_sum, before.loss_sum) << "to the last bit";
  EXPECT_EQ(output.correct, 7);
  EXPECT_EQ(output.counted, 8);
  EXPECT_EQ(read.position.score.samples, 9);
  EXPECT_EQ(read.position.seconds, 1.5);
  EXPECT_EQ(read.position.data_wait_s, 0.25);
  EXPECT_EQ(read.position.learning_rate, 0.1);
  ASSERT_EQ(read.position.costs.size(), 2u);
  const parallel::RankCosts& costs = read.position.costs[1];
  EXPECT_EQ(costs.times[parallel::Phase::compute], 0.1);
  EXPECT_EQ(costs.samples, 32);
  EXPECT_EQ(costs.graph_steps, 21);
  EXPECT_EQ(costs.peak_bytes, 1000);
  EXPECT_EQ(costs.memory_at_peak[MemoryPurpose::gradients], 600);
  EXPECT_EQ(costs.communication.bytes, 77);
  EXPECT_EQ(costs.communication.collectives, 2);
  ASSERT_EQ(read.state.model.size(), 2u);
  EXPECT_EQ(read.state.model[0].name, "a.weight");
  EXPECT_EQ(read.state.model[0].values, (std::vector<float>{3, 4, 5}));
  ASSERT_EQ(read.state.optimizer.size(), 1u);
  EXPECT_EQ(read.state.optimizer[0].values, (std::vector<float>{6, 7}));
  EXPECT_TRUE(read.state.average.empty());
  ASSERT_TRUE(read.state.loss_scale.has_value());
  EXPECT_EQ(read.state.loss_scale->scale, 512);
  EXPECT_EQ(read.state.loss_scale->good, 3);
  EXPECT_EQ(read.state.loss_scale->skipped, 4);
}

TEST(Checkpoint, HoldsAnAverageWhereThereIsOne) {
  const ScratchFolder scratch;
  Checkpoint checkpoint = checkpoint_at(1);
  checkpoint.state.average = {{"b", {2}, {8, 9}}};
  checkpoint.state.loss_scale = std::nullopt;
  const Checkpoint read = read_checkpoint(write_checkpoint(scratch.path(), checkpoint, 3));
  ASSERT_EQ(read.state.average.size(), 1u);
  EXPECT_EQ(read.state.average[0].values, (std::vector<float>{8, 9}));
  EXPECT_FALSE(read.state.loss_scale.has_value());
}

TEST(Checkpoint, TheNewestAreKept) {
  const ScratchFolder scratch;
  for (const int64_t step : {5, 999'999, 1'000'000, 1'000'001})
    write_checkpoint(scratch.path(), checkpoint_at(step), 2);
  const auto folders = checkpoint_folders(scratch.path());
  ASSERT_EQ(folders.size(), 2u);
  EXPECT_EQ(folders[0].filename(), "step-1000000");
  EXPECT_EQ(folders[1].filename(), "step-1000001");
  EXPECT_FALSE(fs::exists(scratch.path() / "step-000005"));
  // A checkpoint of the same step replaces it.
  write_checkpoint(scratch.path(), checkpoint_at(1'000'001), 2);
  EXPECT_EQ(checkpoint_folders(scratch.path()).size(), 2u);
}

TEST(Checkpoint, WhatSomebodyPutBesideIsLeftAlone) {
  const ScratchFolder scratch;
  const fs::path first = write_checkpoint(scratch.path(), checkpoint_at(1), 1);
  write_file_atomically(first / "notes.txt", "mine");
  write_checkpoint(scratch.path(), checkpoint_at(2), 1);
  EXPECT_EQ(text_of(first / "notes.txt"), "mine");
  EXPECT_EQ(checkpoint_folders(scratch.path()).size(), 1u);
}

TEST(Checkpoint, WhatWasPutAsideIsKeptWhenMoreIs) {
  const ScratchFolder scratch;
  const auto put_aside = [&] { return put_aside_after(scratch.path(), 1).front().filename().string(); };
  write_checkpoint(scratch.path(), checkpoint_at(1), 5);
  write_checkpoint(scratch.path(), checkpoint_at(2), 5);
  EXPECT_EQ(put_aside(), "step-000002.aside");
  write_checkpoint(scratch.path(), checkpoint_at(2), 5);
  EXPECT_EQ(put_aside(), "step-000002.aside.2");
  write_checkpoint(scratch.path(), checkpoint_at(2), 5);
  EXPECT_EQ(put_aside(), "step-000002.aside.3");
  for (const char* kept : {"step-000002.aside", "step-000002.aside.2", "step-000002.aside.3"})
    EXPECT_TRUE(fs::exists(scratch.path() / kept / "model.safetensors")) << kept;
}

TEST(Checkpoint, OthersNumbersAreNoSteps) {
  const ScratchFolder scratch;
  const fs::path checkpoint = write_checkpoint(scratch.path(), checkpoint_at(30), 5);
  for (const char* own : {"step-30", "step-0000030", "step-", "step-000030x"})
    fs::copy(checkpoint, scratch.path() / own, fs::copy_options::recursive);
  EXPECT_EQ(checkpoint_folders(scratch.path()), std::vector<fs::path>{checkpoint});
  EXPECT_EQ(write_checkpoint(scratch.path(), checkpoint_at(1234567), 5).filename(), "step-1234567");
  EXPECT_EQ(checkpoint_folders(scratch.path()).size(), 2u);
}

/// A way to damage a checkpoint's folder, and the error that follows.
struct Damage {
  const char* name;
  void (*spoil)(const fs::path& folder);
  std::vector<std::string> words;
};

void flip_last_byte(const fs::path& file) {
  std::string bytes = text_of(file);
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  write_file_atomically(file, bytes);
}

const Damage kDamages[] = {
    {"bit",
     [](const fs::path& folder) { flip_last_byte(folder / "model.safetensors"); },
     {"model.safetensors", "SHA-256", "damaged"}},
    {"truncated",
     [](const fs::path& folder) { fs::resize_file(folder / "optimizer.safetensors", 20); },
     {"optimizer.safetensors", "bytes", "got 20"}},
    {"missing",
     [](const fs::path& folder) { fs::remove(folder / "optimizer.safetensors"); },
     {"optimizer.safetensors", "none"}},
    {"manifest",
     [](const fs::path& folder) { fs::resize_file(folder / "manifest.json", 30); },
     {"manifest.json", "expected the manifest of a checkpoint, got invalid JSON at line "}},
    {"keys",
     [](const fs::path& folder) { write_file_atomically(folder / "manifest.json", R"({"schema": 1})"); },
     {"manifest.json", "position"}},
    {"number",
     [](const fs::path& folder) {
       std::string text = text_of(folder / "manifest.json");
       char& digit = text[text.find("\"step\": ") + std::string_view("\"step\": ").size()];
       digit = digit == '3' ? '4' : '3';
       write_file_atomically(folder / "manifest.json", text);
     },
     {"manifest.json", "expected the SHA-256 of its content", "damaged"}},
    {"schema",
     [](const fs::path& folder) { write_file_atomically(folder / "manifest.json", R"({"schema": 9})"); },
     {"manifest.json", "schema 1", "got 9"}},
};

TEST(Checkpoint, DamageIsNamedAndTheOneBeforeIsTaken) {
  for (const Damage& damage : kDamages) {
    SCOPED_TRACE(damage.name);
    const ScratchFolder scratch;
    write_checkpoint(scratch.path(), checkpoint_at(1), 3);
    const fs::path newest = write_checkpoint(scratch.path(), checkpoint_at(2), 3);
    damage.spoil(newest);
    std::string said;
    try {
      read_checkpoint(newest);
      ADD_FAILURE() << "read";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::bad_data);
      said = error.what();
    }
    for (const std::string& word : damage.words) EXPECT_NE(said.find(word), std::string::npos) << said;
    std::string reported;
    const auto found = newest_checkpoint(scratch.path(), [&](const std::string& what) { reported = what; });
    ASSERT_TRUE(found.has_value());
    EXPECT_EQ(found->checkpoint.position.step, 1);
    EXPECT_TRUE(reported.ends_with("; using " + found->folder.string() + " instead")) << reported;
    EXPECT_EQ(reported.find("use another checkpoint"), std::string::npos) << reported;
    const size_t advice = std::min(said.find("; restore it"), said.find("; use another"));
    EXPECT_TRUE(reported.starts_with(said.substr(0, advice))) << reported;
  }
}

TEST(Checkpoint, ANumberThatMakesNoSenseIsNamed) {
  const ScratchFolder scratch;
  const fs::path manifest = write_checkpoint(scratch.path(), checkpoint_at(12), 3) / "manifest.json";
  const std::string text = text_of(manifest);
  const struct {
    std::string number, nonsense, name;
  } rows[] = {
      {R"("step": 12)", R"("step": -12)",
       "position.step: expected a whole number from 0 to 9223372036854775807, got -12"},
      {R"("epochs": 2)", R"("epochs": 2.5)", "position.epochs: expected a whole number from 0"},
      {R"("batches": 3)", R"("batches": 1e30)", "position.batches: expected a whole number from 0"},
      {R"("batches": 3)", R"("batches": 18446744073709551615)", "position.batches: expected a whole number from 0"},
      {R"("samples": 9)", R"("samples": -9)", "position.score.samples: expected"},
      {R"("correct": 7)", R"("correct": 9)",
       "position.score.outputs[0].correct: expected a whole number from 0 to 8, got 9"},
      {R"("seconds": 1.5)", R"("seconds": -1.5)", "position.seconds: expected a number from 0"},
      {R"("peak_bytes": 1000)", R"("peak_bytes": -1)", "position.costs[1].peak_bytes: expected"},
      {R"("good": 3)", R"("good": 3000000000)", "loss_scale.good: expected a whole number from 0 to 2147483647"},
  };
  for (const auto& row : rows) {
    SCOPED_TRACE(row.nonsense);
    std::string other = text;
    const size_t place = other.find(row.number);
    ASSERT_NE(place, std::string::npos);
    write_file_atomically(manifest, other.replace(place, row.number.size(), row.nonsense));
    expect_error(ExitCode::bad_data, {manifest.string() + ": " + row.name, "the file is damaged; use another"},
                 [&] { read_checkpoint(manifest.parent_path()); });
  }
}

TEST(Checkpoint, OlderOnesAreRemovedOnlyWhenTheNewestReadsBack) {
  for (const Damage& damage : kDamages) {
    SCOPED_TRACE(damage.name);
    const ScratchFolder scratch;
    for (const int64_t step : {1, 2}) write_checkpoint(scratch.path(), checkpoint_at(step), 9);
    const fs::path newest = write_checkpoint(scratch.path(), checkpoint_at(3), 9);
    damage.spoil(newest);
    expect_error(ExitCode::io,
                 {newest.string(), "what is read back differs from what was written", damage.words.front()},
                 [&] { remove_older_checkpoints(newest, 2); });
    EXPECT_EQ(checkpoint_folders(scratch.path()).size(), 3u);
  }
}

/// While the object lives, this thread accesses files as a user without privileges.
class WithoutRights {
 public:
  WithoutRights() : user_(::setfsuid(65534)) {}
  WithoutRights(const WithoutRights&) = delete;
  WithoutRights& operator=(const WithoutRights&) = delete;
  ~WithoutRights() { ::setfsuid(static_cast<uid_t>(user_)); }

 private:
  int user_;
};

TEST(Checkpoint, WhatAPowerCutMayLoseIsSaid) {
  const ScratchFolder scratch;
  // The folder can be written but not opened, so it can't be synced.
  fs::permissions(scratch.path(), static_cast<fs::perms>(0333));
  {
    const WithoutRights rights;
    expect_error(ExitCode::io, {"step-000001: the checkpoint is written, but a power cut may still lose it: "},
                 [&] { write_checkpoint(scratch.path(), checkpoint_at(1), 2); });
  }
  fs::permissions(scratch.path(), fs::perms::owner_all);
  EXPECT_EQ(read_checkpoint(scratch.path() / "step-000001").position.step, 1);
}

TEST(Checkpoint, WhereAllAreDamagedNoneIsTakenForNone) {
  const ScratchFolder scratch;
  for (const int64_t step : {1, 2}) {
    const fs::path folder = write_checkpoint(scratch.path(), checkpoint_at(step), 3);
    fs::resize_file(folder / "model.safetensors", 10);
  }
  size_t reported = 0;
  expect_error(ExitCode::bad_data,
               {scratch.path().string(), "expected an undamaged checkpoint, got 2 damaged; restore one from a copy"},
               [&] { newest_checkpoint(scratch.path(), [&](const std::string&) { ++reported; }); });
  EXPECT_EQ(reported, 2u);
}

/// A copy may lose the manifest: the weights aren't skipped silently, and no file of them is replaced.
TEST(Checkpoint, OneWithoutItsManifestIsDamaged) {
  const ScratchFolder scratch;
  const fs::path older = write_checkpoint(scratch.path(), checkpoint_at(2), 5),
                 newer = write_checkpoint(scratch.path(), checkpoint_at(3), 5);
  fs::remove(newer / "manifest.json");
  std::vector<std::string> reported;
  const auto report = [&](const std::string& what) { reported.push_back(what); };
  EXPECT_EQ(newest_checkpoint(scratch.path(), report)->folder, older);
  ASSERT_EQ(reported.size(), 1u);
  EXPECT_NE(reported[0].find("step-000003/manifest.json: expected the manifest of a checkpoint, got none"),
            std::string::npos)
      << reported[0];
  expect_error(ExitCode::bad_data, {"step-000003/manifest.json"}, [&] { newest_checkpoint(scratch.path(), {}); });
  EXPECT_EQ(put_aside_after(scratch.path(), 2), std::vector<fs::path>{newer.string() + ".aside"});
  EXPECT_TRUE(fs::exists(newer.string() + ".aside/model.safetensors"));
  fs::remove(older / "manifest.json");
  expect_error(ExitCode::bad_data, {"expected an undamaged checkpoint, got 1 damaged"},
               [&] { newest_checkpoint(scratch.path(), report); });
}

TEST(Checkpoint, WhatIsNoneIsMissing) {
  const ScratchFolder scratch;
  fs::create_directory(scratch.path() / "step-000003");  // without a manifest
  EXPECT_FALSE(newest_checkpoint(scratch.path(), [](const std::string&) {}).has_value());
  EXPECT_FALSE(newest_checkpoint(scratch.path() / "absent", [](const std::string&) {}).has_value());
  expect_error(ExitCode::missing_file, {"step-000003", "manifest.json"},
               [&] { read_checkpoint(scratch.path() / "step-000003"); });
  expect_error(ExitCode::missing_file, {"absent", "nothing there"},
               [&] { read_checkpoint(scratch.path() / "absent"); });
  fs::create_symlink("loop", scratch.path() / "loop");
  expect_error(ExitCode::io, {"loop: could not read the folder"}, [&] { read_checkpoint(scratch.path() / "loop"); });
}

TEST(Checkpoint, AFolderThatCannotBeReadIsNotTakenForEmpty) {
  const ScratchFolder scratch;
  const auto ignore = [](const std::string&) {};
  fs::create_symlink(scratch.path() / "unmounted/checkpoints", scratch.path() / "checkpoints");
  expect_error(ExitCode::io, {"checkpoints: could not read the folder", "No such file"},
               [&] { newest_checkpoint(scratch.path() / "checkpoints", ignore); });
  expect_error(ExitCode::io, {"could not read the folder"},
               [&] { remove_unfinished_checkpoints(scratch.path() / "checkpoints"); });
}

TEST(Checkpoint, OneThatTheDiskDoesNotReadIsPassedOver) {
  const ScratchFolder scratch;
  for (const int64_t step : {1, 2}) write_checkpoint(scratch.path(), checkpoint_at(step), 3);
  // Reading a folder as a file fails as a bad sector does.
  const auto spoil = [&](const char* folder) {
    fs::remove(scratch.path() / folder / "manifest.json");
    fs::create_symlink("manifest.json", scratch.path() / folder / "manifest.json");
  };
  std::vector<std::string> reported;
  const auto report = [&](const std::string& what) { reported.push_back(what); };
  spoil("step-000002");
  const auto found = newest_checkpoint(scratch.path(), report);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->checkpoint.position.step, 1);
  ASSERT_EQ(reported.size(), 1u);
  EXPECT_NE(reported[0].find("step-000002/manifest.json: could not be read"), std::string::npos) << reported[0];
  spoil("step-000001");
  expect_error(ExitCode::io, {"step-000002/manifest.json: could not be read"},
               [&] { newest_checkpoint(scratch.path(), report); });
}

TEST(Checkpoint, AFullDiskLeavesTheOneBefore) {
  const ScratchFolder scratch;
  write_checkpoint(scratch.path(), checkpoint_at(1), 1);
  Checkpoint large = checkpoint_at(2);
  // The optimizer's file, the second one, is the one that doesn't fit.
  large.state.optimizer = {{"m", {10'000}, std::vector<float>(10'000, 1)}};
  {
    const FullDisk disk(16'384);
    expect_error(ExitCode::io, {"optimizer.safetensors"}, [&] { write_checkpoint(scratch.path(), large, 1); });
  }
  EXPECT_EQ(entries_of(scratch.path()), std::vector<fs::path>{scratch.path() / "step-000001"});
  EXPECT_EQ(newest_checkpoint(scratch.path(), {})->checkpoint.position.step, 1);
  EXPECT_EQ(newest_checkpoint(write_checkpoint(scratch.path(), large, 1).parent_path(), {})->checkpoint.position.step,
            2)
      << "once there is room";
}

TEST(Checkpoint, WhatAKilledProcessLeftIsRemoved) {
  const ScratchFolder scratch;
  write_checkpoint(scratch.path(), checkpoint_at(1), 3);
  for (const char* name : {"step-000002.tmp-123", "mine.tmp-1"}) {
    fs::create_directory(scratch.path() / name);
    write_file_atomically(scratch.path() / name / "model.safetensors", "half");
  }
  remove_unfinished_checkpoints(scratch.path());
  EXPECT_FALSE(fs::exists(scratch.path() / "step-000002.tmp-123"));
  EXPECT_TRUE(fs::exists(scratch.path() / "mine.tmp-1")) << "not ours";
  EXPECT_EQ(checkpoint_folders(scratch.path()).size(), 1u);
}

/// Writes a placeholder for a checkpoint of this step, with this time of creation.
void leave(const fs::path& folder, int64_t step, const std::string& name, double seconds) {
  Checkpoint checkpoint = checkpoint_at(step);
  checkpoint.position.seconds = seconds;
  fs::rename(write_checkpoint(folder, checkpoint, 9), folder / name);
}

TEST(Checkpoint, WhatAKilledProcessLeftWholeTakesItsPlace) {
  const ScratchFolder scratch;
  leave(scratch.path(), 1, "step-000001.tmp-7.replaced", 1);
  leave(scratch.path(), 1, "step-000001.tmp-7", 2);
  leave(scratch.path(), 2, "step-000002.tmp-7", 1);
  write_checkpoint(scratch.path(), checkpoint_at(2), 9);
  leave(scratch.path(), 3, "step-000003.tmp-7", 1);
  fs::remove(scratch.path() / "step-000003.tmp-7/model.safetensors");
  remove_unfinished_checkpoints(scratch.path());
  EXPECT_EQ(std::distance(fs::directory_iterator(scratch.path()), fs::directory_iterator()), 2) << "nothing else";
  EXPECT_EQ(read_checkpoint(scratch.path() / "step-000001").position.seconds, 2) << "not what it was to replace";
  EXPECT_EQ(read_checkpoint(scratch.path() / "step-000002").position.seconds, 1.5) << "it is there";
}

TEST(Checkpoint, AKilledRemovalLeavesNothingToStay) {
  const ScratchFolder scratch;
  const auto write_for_ever = [&](int64_t step) noexcept {
    for (;; ++step) write_checkpoint(scratch.path(), checkpoint_at(step), 1);
  };
  for (int round = 0; round < 200; ++round) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) write_for_ever(1 + 1000 * round);
    std::this_thread::sleep_for(std::chrono::microseconds(1000 + 37 * round));
    ::kill(child, SIGKILL);
    int status = 0;
    ::waitpid(child, &status, 0);
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << "it wrote until then";
    remove_unfinished_checkpoints(scratch.path());
    for (const auto& left : fs::directory_iterator(scratch.path()))
      EXPECT_TRUE(fs::exists(left.path() / kManifest)) << left.path();
  }
  EXPECT_FALSE(fs::is_empty(scratch.path()));
}

TEST(Checkpoint, AKilledReplacementLeavesOneOfTheTwo) {
  const ScratchFolder scratch;
  const fs::path folder = write_checkpoint(scratch.path(), checkpoint_at(1), 2);
  const auto replace_for_ever = [&]() noexcept {
    for (;;) write_checkpoint(scratch.path(), checkpoint_at(1), 2);
  };
  for (int round = 0; round < 200; ++round) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) replace_for_ever();
    std::this_thread::sleep_for(std::chrono::microseconds(1000 + 37 * round));
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    remove_unfinished_checkpoints(scratch.path());
    ASSERT_NO_THROW(read_checkpoint(folder)) << "round " << round;
  }
}

TEST(Checkpoint, ThatCannotBeWrittenLeavesNothing) {
  const ScratchFolder scratch;
  write_file_atomically(scratch.path() / "file", "");
  expect_error(ExitCode::io, {"file"}, [&] { write_checkpoint(scratch.path() / "file", checkpoint_at(1), 3); });
}

}  // namespace
}  // namespace dptrain::train
