// scripts/launch.sh over two "hosts", one of which is faulty: the script returns the run's exit code, the run leaves
// fault.json, and nothing keeps running.
#include <fmt/format.h>

#include <thread>

#include "processes/launched_training.h"
#include "support/needed_hosts.h"

namespace dptrain::testing {
namespace {

/// mpirun's daemon on another host goes on for twice the grace time, which is at most 5 s here.
constexpr double kIdle_s = 2 * 5 + 2 * kSlack_s;

class HostsFaultsTest : public LaunchedTrainingTest {
 protected:
  void SetUp() override {
    LaunchedTrainingTest::SetUp();
    if (IsSkipped()) return;
    hosts_.emplace(2);
    if (!hosts_->absence().empty()) GTEST_SKIP() << hosts_->absence();
  }

  /// The script with a grace time that is short enough for a test.
  ProcessOptions over_hosts(const Command& more = {}, const std::string& steps = "200") const {
    Command options = {"-H", "10.77.0.1,10.77.0.2", "--agent", hosts_->agent(), "--grace", "1"};
    options.insert(options.end(), more.begin(), more.end());
    return script(options, hosts_->on(1), steps);
  }
  std::string who(size_t process) const {
    return fmt::format("process {} (host host{}, pid {}, rank {})", process, process + 1, pid(process), process);
  }
  /// Expects the job to have exited with code 75, with a record of the second process, and to have left no process.
  json expect_lost_job(const Finished& finished, const std::string& cause) const {
    EXPECT_EQ(finished.exit, 75) << finished.err;
    json fault = json::parse(text_of(run("run") / "fault.json"), nullptr, false);
    if (!fault.is_object()) {
      ADD_FAILURE() << "no fault.json: " << finished.err;
      return json::object();
    }
    EXPECT_EQ(fault["exit"], 75);
    const auto told = fault["root"]["cause"].get<std::string>();
    EXPECT_TRUE(told.starts_with(cause)) << told;
    // Both the process and the script print the cause. If mpirun can no longer show the process's line, only the
    // script's appears.
    EXPECT_NE(finished.err.find(": " + told), std::string::npos) << finished.err;
    EXPECT_TRUE(finished.last_error().starts_with("launch: the job ended with exit code 75: ")) << finished.err;
    hosts_->wait_until_idle(kIdle_s);
    return fault;
  }

  std::optional<Hosts> hosts_;
};

TEST_F(HostsFaultsTest, AnotherConfigurationOnOneHost) {
  before_ = "[[ $(hostname) != host2 ]] || set -- \"$@\" --set learning_rate=0.5 --set seed=7 --set clip_norm=2\n";
  const Finished finished = Process(over_hosts()).wait();
  EXPECT_EQ(finished.exit, 76) << finished.err;
  const std::string sentence =
      "seed: 0 on process 0 on host1, 7 on process 1 on host2 (learning_rate, clip_norm differ, too); give all "
      "processes the same configuration";
  for (const char* mark : {"", "[process 1] "})
    EXPECT_NE(finished.err.find(fmt::format("\n{}dptrain: {}\n", mark, sentence)), std::string::npos) << finished.err;
  EXPECT_EQ(finished.last_error(), "launch: the job ended with exit code 76: " + sentence);
  const json fault = expect_unbegun_fault(run("run"), 76, sentence);
  EXPECT_EQ(fault["root"]["host"], "host2");
  EXPECT_EQ(fault["root"]["pid"], pid(1));
  const auto again = fault["resume"].get<std::string>();
  EXPECT_TRUE(again.starts_with(source_file("scripts/launch.sh") + " -H ")) << again;
  EXPECT_EQ(again.find("--resume"), std::string::npos) << "there is nothing to go on with: " << again;
  hosts_->wait_until_idle(kIdle_s);
}

/// All processes report it, even on the host that has the files.
TEST_F(HostsFaultsTest, FilesThatOneHostLacksAreToldOfWithItsName) {
  const std::string folder = source_file("datasets/mnist-10k");
  ASSERT_TRUE(std::filesystem::is_directory(folder));
  before_ = "[[ $(hostname) != host2 ]] || exec unshare -m bash -c 'mount -t tmpfs none " + folder +
            " && exec \"$@\"' bash \"$@\"\n";
  const Finished finished = Process(over_hosts()).wait();
  EXPECT_EQ(finished.exit, 66) << finished.err;
  for (const char* mark : {"\ndptrain: ", "\n[rank 1] dptrain: ", "\nlaunch: the job ended with exit code 66: "})
    EXPECT_NE(finished.err.find(mark + std::string("on host host2: ")), std::string::npos) << mark << finished.err;
  EXPECT_NE(finished.last_error().find(": dataset: mnist: expected its files in one of "), std::string::npos)
      << finished.err;
  hosts_->wait_until_idle(kIdle_s);
}

TEST_F(HostsFaultsTest, AProcessThatNeverStartsOnOneHost) {
  before_ = "[[ $(hostname) != host2 ]] || exec sleep 100\n";
  ::setenv("DPTRAIN_JOIN_TIMEOUT", "2", 1);
  const Finished finished = Process(over_hosts()).wait();
  ::unsetenv("DPTRAIN_JOIN_TIMEOUT");
  EXPECT_EQ(finished.exit, 69) << finished.err;
  const std::string sentence =
      "the processes of the job did not all join within 2 s: on host host1, 1 of 1 is present; the hosts of the job "
      "are 10.77.0.1, 10.77.0.2; see what the launcher says about the others, or set DPTRAIN_JOIN_TIMEOUT to more "
      "seconds";
  EXPECT_EQ(finished.last_error(), "launch: the job ended with exit code 69: " + sentence);
  expect_unbegun_fault(run("run"), 69, sentence);
  hosts_->wait_until_idle(kIdle_s);
}

/// The process that has started writes the record instead.
TEST_F(HostsFaultsTest, AFirstProcessThatNeverStarts) {
  before_ = "[[ $(hostname) != host1 ]] || exec sleep 100\n";
  ::setenv("DPTRAIN_JOIN_TIMEOUT", "2", 1);
  const Finished finished = Process(over_hosts()).wait();
  ::unsetenv("DPTRAIN_JOIN_TIMEOUT");
  EXPECT_EQ(finished.exit, 69) << finished.err;
  const json fault = expect_unbegun_fault(
      run("run"), 69,
      "the processes of the job did not all join within 2 s: on host host2, 1 of 1 is present; the hosts of the job "
      "are 10.77.0.1, 10.77.0.2; see what the launcher says about the others, or set DPTRAIN_JOIN_TIMEOUT to more "
      "seconds");
  EXPECT_EQ(fault["rank"], nullptr);
  EXPECT_EQ(fault["root"]["host"], "host2");
  hosts_->wait_until_idle(kIdle_s);
}

/// Once all processes have said that they are done, a process that dies is no loss, and the others wait for it only
/// briefly.
TEST_F(HostsFaultsTest, ADeathAtTheVeryEndHoldsNobody) {
  LaunchOptions options = hosts_->launch_options(programs(2, "40"), folder_.path());
  options.grace_s = 20;
  Launch launch(options);
  launch.launcher().wait_until([this] { return std::filesystem::exists(run("run") / "summary.json"); });
  // The processes say that they are done a few milliseconds later.
  std::this_thread::sleep_for(std::chrono::milliseconds(10));
  const std::string victim = name(launch, 1, "host2");
  ::kill(launch.pid(1), SIGKILL);
  launch.wait_for_ends({0}, 3 + 10 + kSlack_s);  // for the last messages, and for the end of the job
  launch.launcher().signal(SIGKILL);             // it sleeps for twice the grace time
  const Finished first = launch.wait().processes[0];
  // Before the processes have said that they are done, it is a death like any other.
  if (first.exit == 75) {
    EXPECT_NE(first.err.find(victim), std::string::npos) << first.err;
  } else {
    EXPECT_EQ(first.exit, 0);
    EXPECT_EQ(first.last_error(),
              fmt::format("dptrain: process 1 (host host2, pid {}) did not reach the end of the job within 10 s; all "
                          "work of the job was done by then",
                          launch.pid(1)));
  }
}

TEST_F(HostsFaultsTest, AStoppedProcess) {
  Process process(over_hosts({}, "1000000"));
  wait_until_trained(process);
  const auto begun = Clock::now();
  ::kill(pid(1), SIGSTOP);
  const Finished finished = process.wait();
  EXPECT_LT(seconds_since(begun), 12 + kSlack_s);
  expect_lost_job(finished, who(1) + " was silent for ");
}

/// mpirun would wait for the host, so the script kills it.
TEST_F(HostsFaultsTest, AHostThatIsCutOff) {
  Process process(over_hosts({}, "1000000"));
  wait_until_trained(process);
  const auto begun = Clock::now();
  hosts_->set_link(2, false);
  const Finished finished = process.wait();
  EXPECT_LT(seconds_since(begun), 12 + kSlack_s);
  EXPECT_FALSE(is_running(pid(0)) || is_running(pid(1)));
  hosts_->set_link(2, true);
  expect_lost_job(finished, who(1) + " was silent for ");
}

/// mpirun's daemon on one host dies, and the host's processes with it.
TEST_F(HostsFaultsTest, ALauncherThatDiesOnOneHost) {
  Process process(over_hosts({}, "1000000"));
  wait_until_trained(process);
  const auto parent = [](pid_t child) {
    const std::string stat = text_of(fmt::format("/proc/{}/stat", child));
    return std::stoi(stat.substr(stat.rfind(')') + 4));
  };
  const pid_t daemon = parent(pid(1));
  ASSERT_NE(text_of(fmt::format("/proc/{}/cmdline", daemon)).find("orted"), std::string::npos);
  // mpirun would ask the other host to stop; its message could arrive before or after the watch notices.
  ::kill(parent(pid(0)), SIGSTOP);
  const auto begun = Clock::now();
  ::kill(daemon, SIGKILL);
  const Finished finished = process.wait();
  EXPECT_LT(seconds_since(begun), 12 + kSlack_s);
  expect_lost_job(finished, "the launcher of the job on host host2 ");
}

TEST_F(HostsFaultsTest, ARestartGoesOnToTheBitsOfAnUninterruptedRun) {
  Process process(over_hosts({"--max-restarts", "1"}));
  wait_until_trained(process);
  kill_process(1);
  const Finished finished = process.wait();
  EXPECT_EQ(finished.exit, 0) << finished.err;
  EXPECT_NE(finished.err.find("launch: a process was lost; starting again in 3 s, restart 1 of 1"), std::string::npos)
      << finished.err;
  EXPECT_FALSE(std::filesystem::exists(run("run") / "fault.json"));
  expect_bits_of_one_process();
}

/// All hosts see the folder; the servers are spread over the hosts in turn.
TEST_F(HostsFaultsTest, ServersWorkInTheFolderThatWasCopied) {
  const std::string absence = absent_of_hosts(std::filesystem::exists("/usr/bin/rsync") ? "" : "there is no rsync");
  if (!absence.empty()) GTEST_SKIP() << absence;
  const ScratchFolder there;
  Command training = program("run", 1, "40");
  *(std::ranges::find(training, "--out") + 1) = "here";
  training.insert(training.end(), {"--set", "strategy={name: kvstore, type: dist_sync}"});
  const std::string folder = there.path() / "work";
  const Finished finished = Process(script({"-H", "10.77.0.1,10.77.0.2", "--agent", hosts_->agent(), "-n", "2", "-s",
                                            "2", "--sync-dst-dir", folder},
                                           hosts_->on(1), training))
                                .wait();
  ASSERT_EQ(finished.exit, 0) << finished.err;
  EXPECT_FALSE(std::filesystem::exists(folder_.path() / "here"));
  const json summary = json::parse(text_of(std::filesystem::path(folder) / "here" / "summary.json"));
  EXPECT_EQ(summary["steps"], 40);
  // Two processes that train, the scheduler, and two servers.
  for (const int process : {0, 1, 2, 3, 4})
    EXPECT_TRUE(std::filesystem::exists(std::filesystem::path(folder) / fmt::format("pid.{}", process))) << process;
}

/// Two processes that train, the scheduler on the first host, and a server on each host.
class HostsStoreFaultsTest : public HostsFaultsTest {
 protected:
  ProcessOptions with_servers(int grace_s, const std::string& type = "dist_sync") const {
    Command training = program("run", 1, "1000000");
    training.insert(training.end(), {"--set", "strategy={name: kvstore, type: " + type + "}"});
    return script({"-H", "10.77.0.1,10.77.0.2", "--agent", hosts_->agent(), "--grace", std::to_string(grace_s), "-n",
                   "2", "-s", "2"},
                  hosts_->on(1), training);
  }
};

TEST_F(HostsStoreFaultsTest, AServerThatIsKilledOnAnotherHost) {
  // Processes on the other host know of the death 3 s after their connections end, and mpirun must not kill them
  // before.
  Process process(with_servers(/*grace_s=*/5));
  wait_until_trained(process);
  const auto begun = Clock::now();
  kill_process(3);
  const Finished finished = process.wait();
  EXPECT_LT(seconds_since(begun), 12 + kSlack_s);
  expect_lost_job(finished, fmt::format("process 3 (host host2, pid {}, server 0) has died", pid(3)));
}

/// The job also ends where the other workers could go on without the killed one.
TEST_F(HostsStoreFaultsTest, AWorkerThatIsKilledOnAnotherHost) {
  for (const char* type : {"dist_sync", "dist_async"}) {
    SCOPED_TRACE(type);
    std::filesystem::remove_all(run("run"));
    Process process(with_servers(/*grace_s=*/5, type));
    wait_until_trained(process);
    const auto begun = Clock::now();
    kill_process(1);
    const Finished finished = process.wait();
    EXPECT_LT(seconds_since(begun), 12 + kSlack_s);
    expect_lost_job(finished, fmt::format("process 1 (host host2, pid {}, rank 1) has died", pid(1)));
  }
}

/// The scheduler holds no weights. On one of the hosts the workers learn of its death over the network alone.
TEST_F(HostsStoreFaultsTest, ASchedulerThatIsKilled) {
  Process process(with_servers(/*grace_s=*/5, "dist_async"));
  wait_until_trained(process);
  const auto begun = Clock::now();
  kill_process(2);
  const Finished finished = process.wait();
  EXPECT_LT(seconds_since(begun), 12 + kSlack_s);
  expect_lost_job(finished, fmt::format("process 2 (host host1, pid {}, the scheduler) has died", pid(2)));
}

TEST_F(HostsStoreFaultsTest, AServerThatIsStoppedOnAnotherHost) {
  Process process(with_servers(/*grace_s=*/1));
  wait_until_trained(process);
  const auto begun = Clock::now();
  ::kill(pid(3), SIGSTOP);
  const Finished finished = process.wait();
  EXPECT_LT(seconds_since(begun), 12 + kSlack_s);
  expect_lost_job(finished, fmt::format("process 3 (host host2, pid {}, server 0) was silent for ", pid(3)));
}

TEST_F(HostsStoreFaultsTest, AHostWithAServerThatIsCutOff) {
  // mpirun's daemon there waits for the grace time twice, for one process after the other.
  Process process(with_servers(/*grace_s=*/1));
  wait_until_trained(process);
  const auto begun = Clock::now();
  hosts_->set_link(2, false);
  const Finished finished = process.wait();
  EXPECT_LT(seconds_since(begun), 12 + kSlack_s);
  for (size_t i = 0; i < 5; ++i) EXPECT_FALSE(is_running(pid(i))) << i;
  hosts_->set_link(2, true);
  // Of the host's two processes, the record names the one that was silent first.
  const json fault = expect_lost_job(finished, "process ");
  EXPECT_EQ(fault["root"]["host"], "host2") << fault;
  EXPECT_NE(fault["root"]["cause"].get<std::string>().find(" was silent for "), std::string::npos) << fault;
}

/// On one machine: when a server is lost, the job starts again with all its kinds of processes.
TEST_F(LaunchedTrainingTest, ServersAreStartedAgainWithTheOthers) {
  Command training = program("run", 1, "200");
  training.insert(training.end(), {"--set", "strategy={name: kvstore, type: dist_sync}"});
  Process process(script({"-n", "2", "-s", "1", "--grace", "1", "--max-restarts", "1"}, {}, training));
  wait_until_trained(process);
  // Process 3 is a server: 0 and 1 are workers, and 2 is the scheduler.
  kill_process(3);
  const Finished finished = process.wait();
  EXPECT_EQ(finished.exit, 0) << finished.err;
  EXPECT_NE(finished.err.find("launch: a process was lost; starting again in 3 s, restart 1 of 1"), std::string::npos)
      << finished.err;
  Command whole = program("whole", 1, "200");
  whole.insert(whole.end(), {"--set", "dataset.partition=by_process"});
  const Launched ddp = launch_processes({whole, whole});
  EXPECT_EQ(ddp.processes[0].exit, 0) << ddp.processes[0].err;
  EXPECT_EQ(hash("run"), hash("whole"));
}

}  // namespace
}  // namespace dptrain::testing
