// One process's disk is slower than the time that ranks wait for each other, before the first batch and in a
// checkpoint. All other processes wait for it.
#include "processes/slow_disk.h"

#include "processes/watched_training.h"

namespace dptrain::testing {
namespace {

constexpr double kTimeout_s = 2;
/// How long a rank waits for another that makes progress: docs/hosts.md.
constexpr double kWait_s = 1.2 * kTimeout_s + 5;

class SlowDiskTest : public JobTrainingTest {
 protected:
  void SetUp() override {
    JobTrainingTest::SetUp();
    DPTRAIN_NEEDS_SLOW_DISK();
  }
  Command short_training(const Command& more) const {
    Command settings = {"--set", fmt::format("timeout_s={}", kTimeout_s), "--set", "batch_size=64"};
    settings.insert(settings.end(), more.begin(), more.end());
    return training("job", "lenet_ddp_2cpu", 1, settings);
  }
  static void expect_success(const Launched& launched) {
    for (const Finished& process : launched.processes) EXPECT_EQ(process.exit, 0) << process.err;
  }

  SlowDisk disk_;
};

struct Saving {
  std::string name;
  Command settings;  ///< of a run that writes its first checkpoint after four steps, and then goes on
};

void PrintTo(const Saving& saving, std::ostream* out) { *out << saving.name; }

class SlowCheckpointTest : public SlowDiskTest, public ::testing::WithParamInterface<Saving> {};

TEST_P(SlowCheckpointTest, IsWaitedForByAll) {
  Command settings = {"--set", "dataset.limit=256", "--set", "dataset.test_limit=200"};
  settings.insert(settings.end(), GetParam().settings.begin(), GetParam().settings.end());
  const Command command = short_training(settings);
  Launch launch({.processes = {disk_.with(command), command}, .folder = folder_.path(), .grace_s = 2});
  launch.launcher().wait_until([this] { return std::filesystem::exists(run("job") / "config.yaml"); });
  // A checkpoint makes eight syncs, each of which is within timeout_s.
  disk_.slow(/*sync_s=*/1.3, /*read_s=*/0);
  const auto begun = Clock::now();
  const auto manifest = run("job") / "checkpoints" / "step-000004" / "manifest.json";
  launch.launcher().wait_until([&manifest] { return std::filesystem::exists(manifest); });
  EXPECT_GT(seconds_since(begun), kWait_s) << "a checkpoint that is as slow as that";
  disk_.mend();
  expect_success(launch.wait());
}

INSTANTIATE_TEST_SUITE_P(Trainings, SlowCheckpointTest,
                         ::testing::Values(Saving{"before_an_evaluation",
                                                  {"--set", "epochs=1", "--set", "checkpoint={every_epochs: 1}"}},
                                           Saving{"of_workers_that_go_on",
                                                  {"--set", "epochs=2", "--set", "eval_every=0", "--set",
                                                   "checkpoint={every_epochs: 0, every_steps: 4}", "--set",
                                                   "strategy={name: kvstore, type: dist_async, max_staleness: 0}"}}),
                         [](const ::testing::TestParamInfo<Saving>& saving) { return saving.param.name; });

TEST_F(SlowDiskTest, TheFirstBatchIsWaitedForByAll) {
  write_idx_dataset(folder_, /*train=*/64, /*test=*/64, /*side=*/28);
  const Command command = short_training({"--set", "dataset={name: mnist, dir: " + folder_.path().string() + "}",
                                          "--set", "epochs=1", "--set", "eval_every=0"});
  // Half of the batch's images are the second process's, which reads them one by one.
  disk_.slow(/*sync_s=*/0, /*read_s=*/0.3);
  Launch launch({.processes = {command, disk_.with(command)}, .folder = folder_.path(), .grace_s = 2});
  launch.launcher().wait_until([this] { return std::filesystem::exists(run("job") / "config.yaml"); });
  const auto begun = Clock::now();
  expect_success(launch.wait());
  EXPECT_GT(seconds_since(begun), kWait_s) << "a batch that is as slow as that";
}

}  // namespace
}  // namespace dptrain::testing
