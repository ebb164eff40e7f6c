// Runs of several processes that are asked to stop, with and without scripts/launch.sh.
#include <fmt/format.h>
#include <sys/prctl.h>

#include <functional>
#include <thread>

#include "processes/launched_training.h"

namespace dptrain::testing {
namespace {

class StoppedJobTest : public WatchdogTest {
 protected:
  /// Expects that all processes stop after the same step with a checkpoint, whichever gets the signal, and that none is
  /// left. Returns that step.
  int64_t expect_stops(const std::function<void(Launch&)>& send, const Command& settings = {}) {
    LaunchOptions options = job(/*grace_s=*/10, /*steps=*/"1000000");
    for (Command& command : options.processes) command.insert(command.end(), settings.begin(), settings.end());
    Launch launch(options);
    wait_until_trained(launch.launcher());
    send(launch);
    const Launched launched = launch.wait();
    const json summary = json::parse(text_of(run("run") / "summary.json"));
    const std::string sentence =
        fmt::format("dptrain: stopped by SIGTERM after step {}; the weights are in ", summary["steps"].get<int64_t>());
    for (size_t i = 0; i < 2; ++i) {
      const Finished& process = launched.processes[i];
      EXPECT_EQ(process.exit, 143) << process.err;
      EXPECT_TRUE(process.last_error().starts_with(sentence)) << process.err;
      EXPECT_NE(::kill(launch.pid(i), 0), 0) << "process " << i << " is still there";
    }
    EXPECT_EQ(summary["exit"], 143);
    EXPECT_FALSE(std::filesystem::exists(run("run") / "fault.json"));
    return summary["steps"];
  }
};

TEST_F(StoppedJobTest, SigtermOfTheLauncher) {
  expect_stops([](Launch& launch) { launch.launcher().signal(SIGTERM); });
}

TEST_F(StoppedJobTest, CtrlCOfTheLauncher) {
  // mpirun then ends the job with SIGTERM.
  expect_stops([](Launch& launch) { launch.launcher().signal(SIGINT); });
}

TEST_F(StoppedJobTest, SigtermOfOneProcess) {
  expect_stops([](Launch& launch) { ::kill(launch.pid(1), SIGTERM); });
}

/// Processes that train independently for a while still agree on stopping from time to time.
TEST_F(StoppedJobTest, SigtermBetweenTwoAveragings) {
  const int64_t step = expect_stops([](Launch& launch) { ::kill(launch.pid(1), SIGTERM); },
                                    {"--set", "strategy={name: local_sgd, period: 1000}"});
  EXPECT_EQ(step % 8, 0);
  EXPECT_TRUE(
      std::filesystem::exists(run("run") / "checkpoints" / fmt::format("step-{:06}", step) / "replicas.safetensors"));
}

TEST_F(StoppedJobTest, SigtermThatABatchSystemRepeats) {
  // Steps take seconds, so that the second signal arrives during a step.
  LaunchOptions options = job(/*grace_s=*/5, /*steps=*/"1000");
  for (Command& command : options.processes)
    for (const char* setting : {"model=resnet18", "batch_size=128", "learning_rate=0.001"})
      command.insert(command.end(), {"--set", setting});
  Launch launch(options);
  launch.launcher().wait_until([this] { return std::filesystem::exists(run("run") / "config.yaml"); });
  for (int time = 0; time < 3; ++time) {
    std::this_thread::sleep_for(std::chrono::milliseconds(400));
    for (size_t i = 0; i < 2; ++i) ::kill(launch.pid(i), SIGTERM);
  }
  const Launched launched = launch.wait();
  for (const Finished& process : launched.processes) {
    EXPECT_EQ(process.exit, 143) << process.err;
    EXPECT_TRUE(process.last_error().starts_with("dptrain: stopped by SIGTERM after step ")) << process.err;
  }
}

TEST_F(StoppedJobTest, SigtermInAnEvaluation) {
  LaunchOptions options = job(/*grace_s=*/2);
  for (Command& command : options.processes)
    for (const char* setting :
         {"steps=", "epochs=2", "eval_every=1", "dataset.test_limit=10000", "checkpoint={every_epochs: 1}"})
      command.insert(command.end(), {"--set", setting});
  Launch launch(options);
  const auto first = run("run") / "checkpoints" / "step-000005" / "manifest.json";
  launch.launcher().wait_until([&first] { return std::filesystem::exists(first); });
  ::kill(launch.pid(1), SIGTERM);
  const Launched launched = launch.wait();
  for (const Finished& process : launched.processes) {
    EXPECT_EQ(process.exit, 143) << process.err;
    EXPECT_EQ(process.last_error(), launched.processes[0].last_error());
  }
  EXPECT_TRUE(launched.processes[0].last_error().starts_with("dptrain: stopped by SIGTERM after step 5;"))
      << launched.processes[0].err;
  EXPECT_EQ(text_of(run("run") / "metrics.jsonl"), "") << "the epoch is not over before it is evaluated";
}

class StoppedLaunchTest : public LaunchedTrainingTest {
 protected:
  /// Sends the script a signal, and expects everything to end soon, however long the grace time is.
  void expect_stops(Process& process, int signal, int code) const {
    wait_until_trained(process);
    const auto begun = Clock::now();
    process.signal(signal);
    const Finished finished = process.wait();
    EXPECT_LT(seconds_since(begun), 2.5 + kSlack_s);
    EXPECT_EQ(finished.exit, code) << finished.err;
    const json summary = json::parse(text_of(run("run") / "summary.json"), nullptr, false);
    ASSERT_TRUE(summary.is_object()) << finished.err;
    EXPECT_EQ(summary["exit"], code);
    const std::string sentence = fmt::format("dptrain: stopped by {} after step {}; the weights are in ",
                                             code == 130 ? "SIGINT" : "SIGTERM", summary["steps"].get<int64_t>());
    EXPECT_NE(finished.err.find(sentence), std::string::npos) << finished.err;
    for (const size_t one : {0u, 1u}) EXPECT_FALSE(is_running(pid(one))) << "process " << one << " is still there";
  }
  void expect_stops_over_two_hosts(int signal, int code) const {
    const Hosts hosts(2);
    if (!hosts.absence().empty()) GTEST_SKIP() << hosts.absence();
    const Command options = {"--grace", "2", "-H", "10.77.0.1,10.77.0.2", "--agent", hosts.agent()};
    Process process(script(options, hosts.on(1), "1000000"));
    expect_stops(process, signal, code);
    // mpirun's daemon on the other host goes on for twice the grace time.
    hosts.wait_until_idle(2 * 2 + 2 * kSlack_s);
  }
};

TEST_F(StoppedLaunchTest, CtrlCStopsTheTrainingAtOnceWithACheckpoint) {
  Process process(script({"-n", "2"}, {}, "1000000"));
  expect_stops(process, SIGINT, 130);
}

/// A batch system sends such signals before its time limit.
TEST_F(StoppedLaunchTest, SoDoesAUsersSignal) {
  for (const auto& [signal, code] : {std::pair(SIGUSR1, 130), {SIGUSR2, 143}, {SIGQUIT, 143}}) {
    SCOPED_TRACE(signal);
    std::filesystem::remove_all(run("run"));
    Process process(script({"-n", "2"}, {}, "1000000"));
    expect_stops(process, signal, code);
  }
}

TEST_F(StoppedLaunchTest, SoItDoesOverTwoHosts) { expect_stops_over_two_hosts(SIGINT, 130); }

TEST_F(StoppedLaunchTest, SoDoesSigtermOverTwoHosts) { expect_stops_over_two_hosts(SIGTERM, 143); }

/// One of the two processes is stopped, and can't react to anything.
TEST_F(LaunchedTrainingTest, ASecondCtrlCLeavesAtOnce) {
  Process process(script({"-n", "2"}, {}, "1000000"));
  wait_until_trained(process);
  ::kill(pid(1), SIGSTOP);
  process.signal(SIGINT);
  std::this_thread::sleep_for(std::chrono::milliseconds(600));
  const auto begun = Clock::now();
  process.signal(SIGINT);
  const Finished finished = process.wait();
  EXPECT_LT(seconds_since(begun), 3 + kSlack_s);
  EXPECT_EQ(finished.exit, 130) << finished.err;
  EXPECT_NE(finished.err.find("stopped at once by a second SIGINT"), std::string::npos) << finished.err;
  for (const size_t one : {0u, 1u}) EXPECT_FALSE(is_running(pid(one))) << "process " << one << " is still there";
  EXPECT_FALSE(std::filesystem::exists(run("run") / "summary.json"));
  EXPECT_NE(hash("run"), "") << "the checkpoint before is whole";
}

/// The number of running processes of a script that started something in this folder.
size_t scripts_in(const std::filesystem::path& folder) {
  size_t left = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const std::string command = text_of(entry.path() / "cmdline"), name = entry.path().filename();
    if (command.find("launch.sh") == std::string::npos || command.find(folder.string()) == std::string::npos) continue;
    if (is_running(std::stoi(name))) ++left;
  }
  return left;
}

/// A batch system or an impatient user may kill the script.
TEST_F(LaunchedTrainingTest, TheScriptsDeathStopsTheTrainingWithACheckpoint) {
  // The script's children become the test's, which never waits for mpirun's end. A container's first process may not do
  // so either.
  ASSERT_EQ(::prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
  // The script can't see SIGKILL, and doesn't pass on SIGALRM.
  for (const int signal : {SIGKILL, SIGALRM}) {
    SCOPED_TRACE(signal);
    std::filesystem::remove_all(run("run"));
    Process process(script({"-n", "2"}, {}, "1000000"));
    wait_until_trained(process);
    // The script and its watcher sometimes fork to query the system.
    const auto looked = Clock::now();
    size_t scripts = scripts_in(folder_.path());
    for (; scripts > 2 && seconds_since(looked) < 20; scripts = scripts_in(folder_.path()))
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    EXPECT_EQ(scripts, 2u) << "the script, and what watches over mpirun for it";
    process.signal(signal);
    const auto is_left = [this] { return is_running(pid(0)) || is_running(pid(1)) || scripts_in(folder_.path()) > 0; };
    const auto begun = Clock::now();
    while (is_left() && seconds_since(begun) < 20) std::this_thread::sleep_for(std::chrono::milliseconds(50));
    EXPECT_FALSE(is_left());
    const json summary = json::parse(text_of(run("run") / "summary.json"));
    EXPECT_EQ(summary["exit"], 143);
    EXPECT_EQ(summary["weights_hash"].get<std::string>() + "\n", hash("run"));
  }
  EXPECT_EQ(::prctl(PR_SET_CHILD_SUBREAPER, 0), 0);
}

TEST_F(LaunchedTrainingTest, ReturnsWhatIsLeftToSayWhereRank0IsLost) {
  Process process(script("0"));
  wait_until_trained(process);
  kill_process(0);
  const Finished finished = process.wait();
  EXPECT_EQ(finished.exit, 75) << finished.err;
  EXPECT_NE(finished.err.find("lost, resume with: " + source_file("scripts/launch.sh") + " -n 2 "), std::string::npos)
      << finished.err;
}

TEST_F(LaunchedTrainingTest, StartsAgainFromTheNewestCheckpoint) {
  Process process(script("1"));
  wait_until_trained(process);
  kill_process(1);
  const Finished finished = process.wait();
  EXPECT_EQ(finished.exit, 0) << finished.err;
  EXPECT_NE(finished.err.find("launch: a process was lost; starting again in 3 s, restart 1 of 1"), std::string::npos)
      << finished.err;
  expect_bits_of_one_process();
}

/// A run that begins at the last checkpoint of "other", and is lost before it has its own.
class TrainingFromAnotherRunTest : public LaunchedTrainingTest {
 protected:
  void SetUp() override {
    LaunchedTrainingTest::SetUp();
    if (IsSkipped()) return;
    const Finished other = alone(program("other", 2, "40"));
    ASSERT_EQ(other.exit, 0) << other.err;
  }
  ProcessOptions script_from_other(const Command& launch_options, Command training) const {
    training.insert(training.end(), {"--set", "checkpoint={every_epochs: 0, every_steps: 1000}", "--set",
                                     "log_steps=true", "--resume", run("other").string()});
    return script(launch_options, {}, training);
  }
  void lose_after_a_step_in(const std::string& name, Process& process) const {
    process.wait_until([&] { return !text_of(run(name) / "steps.jsonl").empty(); });
    kill_process(1);
  }
};

TEST_F(TrainingFromAnotherRunTest, TheCommandThatGoesOnBeginsThereOnceMore) {
  Process process(script_from_other({"-n", "2", "--grace", "1"}, program("run", 1, "200")));
  lose_after_a_step_in("run", process);
  const Finished finished = process.wait();
  EXPECT_EQ(finished.exit, 75) << finished.err;
  const json fault = json::parse(text_of(run("run") / "fault.json"));
  const auto resume = fault["resume"].get<std::string>();
  EXPECT_TRUE(resume.ends_with(" --resume " + run("other").string() + " --overwrite")) << resume;
  expect_resumes(fault);
}

/// The script learns the run's folder from the run itself, since no argument names it.
TEST_F(TrainingFromAnotherRunTest, SoDoesARestart) {
  Command training = program("run", 1, "200");
  const auto out = std::ranges::find(training, "--out");
  training.erase(out, out + 2);
  training.insert(training.end(), {"--set", "name=own"});
  Process process(script_from_other({"-n", "2", "--grace", "1", "--max-restarts", "1"}, training));
  lose_after_a_step_in("runs/own", process);
  const Finished finished = process.wait();
  EXPECT_EQ(finished.exit, 0) << finished.err;
  EXPECT_NE(finished.err.find(" --resume " + run("other").string() + " --overwrite\n"), std::string::npos)
      << finished.err;
  EXPECT_EQ(alone(program("whole", 2)).exit, 0);
  EXPECT_EQ(hash("runs/own"), hash("whole"));
}

}  // namespace
}  // namespace dptrain::testing
