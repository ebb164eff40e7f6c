// A process is killed while a job starts, evaluates, writes a checkpoint or ends. Whatever the other process is doing,
// it ends in time and reports the death, and nothing is left running.
#include "processes/slow_disk.h"
#include "processes/watched_training.h"

namespace dptrain::testing {
namespace {

/// Whether a process has this file open.
bool has_open(pid_t pid, const std::filesystem::path& file) {
  std::error_code gone;
  for (const auto& entry : std::filesystem::directory_iterator(fmt::format("/proc/{}/fd", pid), gone))
    if (std::filesystem::read_symlink(entry.path(), gone) == file) return true;
  return false;
}

/// Whether the folder has an entry whose name contains this text.
bool has_entry(const std::filesystem::path& folder, const std::string& part_of_name) {
  std::error_code absent;
  for (const auto& entry : std::filesystem::directory_iterator(folder, absent))
    if (entry.path().filename().string().find(part_of_name) != std::string::npos) return true;
  return false;
}

/// The parameter says which of two processes is killed. The first one writes the run's files.
class KilledJobTest : public WatchdogTest, public ::testing::WithParamInterface<size_t> {
 protected:
  void SetUp() override {
    WatchdogTest::SetUp();
    DPTRAIN_NEEDS_SLOW_DISK();
  }
  LaunchOptions job_with(const Command& settings) const {
    LaunchOptions options;
    options.processes = std::vector<Command>(2, disk_.with(training("run", "lenet_ddp_2cpu", 1, settings)));
    options.folder = folder_.path();
    options.grace_s = 2;
    return options;
  }
  /// A job of five steps, a checkpoint, and an evaluation that takes a while.
  LaunchOptions evaluating_job() const {
    return job_with({"--set", "epochs=1", "--set", "dataset.limit=320", "--set", "dataset.test_limit=10000"});
  }
  std::filesystem::path checkpoint() const { return run("run") / "checkpoints" / "step-000005"; }

  /// Kills the process as soon as `is_there` holds, and expects the other one to end in time.
  void expect_end(Launch& launch, const std::function<bool()>& is_there) const {
    const size_t killed = GetParam(), survivor = 1 - killed;
    launch.launcher().wait_until(is_there);
    const std::string who =
        fmt::format("dptrain: process {} (host {}, pid {}", killed, host_name(), launch.pid(killed));
    ASSERT_EQ(::kill(launch.pid(killed), SIGKILL), 0);
    launch.wait_for_ends({survivor}, kDeath_s);
    const Finished ended = launch.wait().processes[survivor];
    EXPECT_EQ(ended.exit, 75) << ended.err;
    EXPECT_TRUE(ended.last_error().starts_with(who)) << ended.err;
    EXPECT_NE(ended.last_error().find(" has died"), std::string::npos) << ended.err;
    for (const size_t process : {0u, 1u}) EXPECT_FALSE(is_running(launch.pid(process))) << "process " << process;
  }

  SlowDisk disk_;
};

TEST_P(KilledJobTest, WhileItStarts) {
  write_idx_dataset(folder_, /*train=*/64, /*test=*/64, /*side=*/28);
  disk_.slow(/*sync_s=*/0, /*read_s=*/5);
  Launch launch(
      job_with({"--set", "epochs=1", "--set", "dataset={name: mnist, dir: " + folder_.path().string() + "}"}));
  // The first process reads the data while the second waits for it.
  const auto images = folder_.path() / "train-images-idx3-ubyte";
  expect_end(launch, [&] { return has_open(launch.pid(0), images); });
  EXPECT_TRUE(has_entry(run("run"), "fault")) << "of who lives, whichever of them that is";
}

TEST_P(KilledJobTest, WhileItEvaluates) {
  Launch launch(evaluating_job());
  expect_end(launch, [this] { return std::filesystem::exists(checkpoint() / "manifest.json"); });
  EXPECT_TRUE(has_entry(run("run"), "fault"));
}

TEST_P(KilledJobTest, WhileItWritesACheckpoint) {
  Launch launch(evaluating_job());
  launch.launcher().wait_until([this] { return std::filesystem::exists(run("run") / "config.yaml"); });
  disk_.slow(/*sync_s=*/3, /*read_s=*/0);
  expect_end(launch, [this] { return has_entry(run("run") / "checkpoints", ".tmp-"); });
  EXPECT_FALSE(std::filesystem::exists(checkpoint())) << "half of it is none";
}

TEST_P(KilledJobTest, WhileItEnds) {
  Launch launch(evaluating_job());
  launch.launcher().wait_until([this] { return std::filesystem::exists(checkpoint() / "manifest.json"); });
  disk_.slow(/*sync_s=*/0.8, /*read_s=*/0);
  expect_end(launch, [this] { return has_entry(run("run"), "summary.json.tmp-"); });
  EXPECT_NE(text_of(run("run") / "metrics.jsonl"), "") << "all was trained";
}

INSTANTIATE_TEST_SUITE_P(Processes, KilledJobTest, ::testing::Values(0, 1));

}  // namespace
}  // namespace dptrain::testing
