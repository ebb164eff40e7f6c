// A job that srun starts without a script, on two nodes of a Slurm on this machine.
#include <fmt/format.h>

#include <thread>

#include "processes/watched_training.h"
#include "support/slurm.h"

namespace dptrain::testing {
namespace {

class SrunTest : public WatchdogTest {
 protected:
  void SetUp() override {
    WatchdogTest::SetUp();
    if (IsSkipped()) return;
    slurm_.emplace();
    if (!slurm_->absence().empty()) GTEST_SKIP() << slurm_->absence();
  }

  ProcessOptions srun(const Command& program, const Command& more = {"--mpi=pmix", "--kill-on-bad-exit"}) const {
    Command command = {"/usr/bin/srun", "-N", "2", "-n", "2", "--overcommit"};
    command.insert(command.end(), more.begin(), more.end());
    command.insert(command.end(), program.begin(), program.end());
    return {.command = command, .folder = folder_.path(), .timeout_s = 60, .out = {}, .err = {}};
  }
  /// A run that takes longer than any test.
  Command endless() const { return program("run", 1, "1000000"); }

  /// The id of a rank's process under this Slurm.
  static pid_t pid_of_rank(int rank) {
    const std::string conf = std::getenv("SLURM_CONF");
    for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
      const std::string name = entry.path().filename();
      if (name.find_first_not_of("0123456789") != std::string::npos || text_of(entry.path() / "comm") != "dptrain\n")
        continue;
      std::string variables = "\n" + text_of(entry.path() / "environ");
      std::ranges::replace(variables, '\0', '\n');
      const auto has = [&](const std::string& variable) {
        return variables.find("\n" + variable + "\n") != std::string::npos;
      };
      if (has(fmt::format("PMIX_RANK={}", rank)) && has("SLURM_CONF=" + conf)) return std::stoi(name);
    }
    ADD_FAILURE() << "no process of rank " << rank;
    return 0;
  }
  static void signal_rank(int rank, int number) {
    if (const pid_t pid = pid_of_rank(rank); pid > 0) ::kill(pid, number);
  }
  static void scancel(const Command& options) {
    Command command = {"/usr/bin/scancel", "--user=root"};
    command.insert(command.end(), options.begin(), options.end());
    const Finished done = Process({.command = command, .folder = "/", .timeout_s = 30, .out = {}, .err = {}}).wait();
    EXPECT_EQ(done.exit, 0) << done.err;
  }
  json summary() const { return json::parse(text_of(run("run") / "summary.json"), nullptr, false); }
  json fault(const char* file) const { return json::parse(text_of(run("run") / file), nullptr, false); }

  std::optional<Slurm> slurm_;
};

TEST_F(SrunTest, TrainsOnTwoNodesToTheBitsOfOneProcess) {
  const Finished finished = Process(srun(program("run", 1))).wait();
  ASSERT_EQ(finished.exit, 0) << finished.err;
  expect_bits_of_one_process();
  const json epoch = last_epoch(run("run"));
  for (size_t rank = 0; rank < 2; ++rank) EXPECT_EQ(epoch["devices"][rank]["host"], fmt::format("node{}", rank + 1));
}

/// Two processes that train, the scheduler and a server; each node has two of them.
TEST_F(SrunTest, ServersOfAStoreNeedNoScript) {
  Command training = program("run", 1, "20");
  training.insert(training.end(), {"--set", "strategy={name: kvstore, type: dist_sync, servers: 1}"});
  const Finished finished = Process(srun(training, {"--mpi=pmix", "--kill-on-bad-exit", "-n", "4"})).wait();
  ASSERT_EQ(finished.exit, 0) << finished.err;
  const json ended = summary();
  EXPECT_EQ(ended["steps"], 20);
  EXPECT_EQ(last_epoch(run("run"))["world_size"], 2);
}

TEST_F(SrunTest, WithoutAPluginThatJoinsProcessesEachIsRefused) {
  const Finished finished = Process(srun(program("run", 1), {"--mpi=none"})).wait();
  EXPECT_EQ(finished.exit, 69) << finished.err;
  EXPECT_NE(finished.err.find("srun started 2 processes that don't know each other"), std::string::npos)
      << finished.err;
  EXPECT_FALSE(std::filesystem::exists(run("run")));
}

/// Debian's Open MPI doesn't support this plugin, and reports it.
TEST_F(SrunTest, APluginThatMpiDoesNotHaveEndsAllAtOnce) {
  const auto begun = Clock::now();
  const Finished finished = Process(srun(program("run", 1), {"--mpi=pmi2"})).wait();
  if (finished.exit == 0) GTEST_SKIP() << "this Open MPI joins processes by PMI-2";
  EXPECT_LT(seconds_since(begun), 10) << finished.err;
  EXPECT_NE(finished.err.find("PMI support"), std::string::npos) << finished.err;
}

TEST_F(SrunTest, AKilledProcessEndsTheOtherAndTheCommandGoesOn) {
  Process process(srun(program("run", 1, "400")));
  wait_until_trained(process);
  const auto begun = Clock::now();
  signal_rank(1, SIGKILL);
  const Finished finished = process.wait();
  EXPECT_LT(seconds_since(begun), kSilence_s);
  EXPECT_EQ(finished.exit, 137) << "the greatest of its tasks'";
  const json record = fault("fault.json");
  ASSERT_TRUE(record.is_object()) << finished.err;
  EXPECT_EQ(record["exit"], 75);
  EXPECT_TRUE(record["root"]["cause"].get<std::string>().starts_with("process 1 (host node2, pid ")) << record["root"];
  const auto resume = record["resume"].get<std::string>();
  EXPECT_TRUE(resume.starts_with("srun --mpi=pmix --kill-on-bad-exit -n 2 -N 2 ")) << resume;
  // Both processes fit on one core.
  const Finished resumed = alone({"/usr/bin/env", "SLURM_OVERCOMMIT=1", "/bin/sh", "-c", resume});
  EXPECT_EQ(resumed.exit, 0) << resumed.err;
  const Finished whole = alone(program("whole", 2, "400"));
  EXPECT_EQ(whole.exit, 0) << whole.err;
  EXPECT_EQ(hash("run"), hash("whole"));
}

TEST_F(SrunTest, AStoppedProcessEndsTheOtherAndIsGone) {
  Process process(srun(endless()));
  wait_until_trained(process);
  const auto begun = Clock::now();
  const pid_t stopped = pid_of_rank(0);
  ::kill(stopped, SIGSTOP);
  const Finished finished = process.wait();
  EXPECT_LT(seconds_since(begun), kSilence_s + 2);
  EXPECT_EQ(finished.exit, 75) << finished.err;
  EXPECT_FALSE(is_running(stopped));
  const json record = fault("fault-1.json");
  ASSERT_TRUE(record.is_object()) << finished.err;
  EXPECT_EQ(record["root"]["rank"], 0);
  EXPECT_EQ(record["root"]["pid"], stopped);
}

/// scancel sends SIGCONT and SIGTERM, and later SIGKILL, as a preemption does.
TEST_F(SrunTest, ScancelStopsTheTrainingWithACheckpoint) {
  Process process(srun(endless()));
  wait_until_trained(process);
  scancel({});
  const Finished finished = process.wait();
  EXPECT_EQ(finished.exit, 143) << finished.err;
  ASSERT_TRUE(summary().is_object()) << finished.err;
  EXPECT_EQ(summary()["exit"], 143);
  EXPECT_EQ(hash("run").substr(0, 64), summary()["weights_hash"]);
}

}  // namespace
}  // namespace dptrain::testing
