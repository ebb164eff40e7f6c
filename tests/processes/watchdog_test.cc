// Trainings of several processes of which one dies, stops or is cut off, or which are asked to stop: all processes end
// in time, in the same words, and the training goes on where it was.
#include <signal.h>

#include <optional>

#include "e2e/command_fixture.h"
#include "support/hosts.h"

namespace dptrain::testing {
namespace {

/// A training that would never end, by two processes of one rank each.
class WatchdogTest : public CommandTest {
 protected:
  static Arguments two_ranks(const std::string& out, const std::string& steps) {
    return training(out, {"devices=cpu:0", "epochs=", "steps=" + steps, "eval_every=0",
                          "checkpoint={every_epochs: 0, every_steps: 10}"});
  }
  static Command command(const Arguments& arguments) {
    Command command = {dptrain_binary()};
    command.insert(command.end(), arguments.begin(), arguments.end());
    return command;
  }
  LaunchOptions job(int grace_s = 5) const {
    LaunchOptions options;
    options.processes = std::vector<Command>(2, command(two_ranks("run", "1000000")));
    options.folder = folder_.path();
    options.grace_s = grace_s;
    return options;
  }
  bool has_checkpoint() const {
    std::error_code absent;
    for (const auto& entry : std::filesystem::directory_iterator(path("run/checkpoints"), absent))
      if (std::filesystem::exists(entry.path() / "manifest.json", absent)) return true;
    return false;
  }
  void wait_until_trained(Launch& launch) const {
    launch.launcher().wait_until([this] { return has_checkpoint(); });
  }
  /// "process 1 (host h, pid 77, rank 1)"
  static std::string name(const Launch& launch, size_t process, const std::string& host = {}) {
    std::array<char, 256> own = {};
    EXPECT_EQ(::gethostname(own.data(), own.size() - 1), 0);
    return fmt::format("process {} (host {}, pid {}, rank {})", process, host.empty() ? own.data() : host,
                       launch.pid(process), process);
  }

  /// A survivor's end: 75, the sentence with these words as the last line, and what goes on. Returns that line.
  static std::string expect_lost(const Finished& survivor, const std::vector<std::string>& words) {
    expect_failed(survivor, 75, words);
    expect_failed(survivor, 75, {" lost, resume with: mpirun -n 2 ", " --resume"});
    size_t said = 0;
    for (const auto& line : lines_of(survivor.err)) said += line == survivor.last_error() ? 1 : 0;
    EXPECT_EQ(said, 1u) << survivor.err;
    return survivor.last_error();
  }
  nlohmann::json fault(const std::string& file) const {
    if (!exists(file)) {
      ADD_FAILURE() << "there is no " << file;
      return nlohmann::json();
    }
    const nlohmann::json fault = json_of(file);
    EXPECT_EQ(violations("fault.schema.json", fault), std::vector<std::string>()) << fault;
    return fault;
  }
  /// What a lost process leaves behind is whole: the training goes on, by two processes again, and ends in the bits of
  /// one that was never interrupted, by one process with both devices.
  void expect_resumes(const nlohmann::json& fault) const {
    ASSERT_TRUE(fault.contains("last_checkpoint") && fault["last_checkpoint"].is_object()) << fault;
    EXPECT_TRUE(exists(fault["last_checkpoint"]["path"].get<std::string>())) << fault;
    const int64_t steps = fault["last_checkpoint"]["step"].get<int64_t>() + 25;
    Arguments resumed = two_ranks("run", std::to_string(steps));
    resumed.emplace_back("--resume");
    const Launched launched = launch(2, command(resumed), folder_.path());
    for (const Finished& process : launched.processes) EXPECT_EQ(process.exit, 0) << process.err;
    EXPECT_NE(launched.processes[0].out.find("step"), std::string::npos);
    EXPECT_FALSE(exists("run/fault.json"));
    EXPECT_FALSE(exists("run/fault-1.json"));
    train("whole", {"epochs=", "steps=" + std::to_string(steps), "eval_every=0"});
    EXPECT_EQ(hash("run"), hash("whole"));
  }
};

TEST_F(WatchdogTest, AKilledProcessEndsTheOtherAndTheTrainingGoesOn) {
  DPTRAIN_NEEDS_MPI();
  for (const size_t killed : {1u, 0u}) {
    SCOPED_TRACE(::testing::Message() << "process " << killed);
    std::filesystem::remove_all(path("run"));
    std::filesystem::remove_all(path("whole"));
    Launch launch(job());
    wait_until_trained(launch);
    const std::string who = name(launch, killed);
    const pid_t pid = launch.pid(killed);
    ::kill(pid, SIGKILL);
    const Launched launched = launch.wait();
    const size_t survivor = 1 - killed;
    const std::string line = expect_lost(launched.processes[survivor], {who, " has died; it was last heard of in "});
    const auto record = fault(survivor == 0 ? "run/fault.json" : "run/fault-1.json");
    EXPECT_EQ(record["exit"], 75);
    EXPECT_EQ(record["process"], survivor);
    EXPECT_EQ(record["root"]["process"], killed);
    EXPECT_EQ(record["root"]["pid"], pid);
    EXPECT_TRUE(line.starts_with("dptrain: " + record["root"]["cause"].get<std::string>() + "; ")) << line;
    EXPECT_TRUE(line.ends_with(record["resume"].get<std::string>())) << line;
    expect_resumes(record);
  }
}

TEST_F(WatchdogTest, AStoppedProcessEndsTheOther) {
  DPTRAIN_NEEDS_MPI();
  Launch launch(job(/*grace_s=*/1));
  wait_until_trained(launch);
  const std::string who = name(launch, 1);
  ::kill(launch.pid(1), SIGSTOP);
  const Launched launched = launch.wait();
  expect_lost(launched.processes[0], {who, " was silent for 10.", "; it was last heard of in "});
  EXPECT_EQ(launched.processes[1].exit, -1) << "mpirun has to end the stopped one";
  expect_resumes(fault("run/fault.json"));
}

TEST_F(WatchdogTest, AProcessThatIsStoppedForAWhileIsToldOf) {
  DPTRAIN_NEEDS_MPI();
  Launch launch(job());
  wait_until_trained(launch);
  const std::string who = name(launch, 1);
  ::kill(launch.pid(1), SIGSTOP);
  std::this_thread::sleep_for(std::chrono::milliseconds(4500));
  ::kill(launch.pid(1), SIGCONT);
  launch.launcher().wait_until([&] { return launch.err(0).find("was silent for ") != std::string::npos; });
  EXPECT_NE(launch.err(0).find("dptrain: " + who + " was silent for "), std::string::npos) << launch.err(0);
  ::kill(launch.pid(0), SIGTERM);
  const Launched launched = launch.wait();
  for (const Finished& process : launched.processes) EXPECT_EQ(process.exit, 143) << process.err;
  EXPECT_FALSE(exists("run/fault.json"));
}

TEST_F(WatchdogTest, TheLaunchersDeathEndsAll) {
  DPTRAIN_NEEDS_MPI();
  Launch launch(job());
  wait_until_trained(launch);
  launch.launcher().signal(SIGKILL);
  launch.wait_for_ends({0, 1}, 20);
  const Launched launched = launch.wait();
  const std::string line = expect_lost(launched.processes[0], {"the launcher of the job on host ", " has died"});
  EXPECT_EQ(expect_lost(launched.processes[1], {}), line);
  expect_resumes(fault("run/fault.json"));
}

TEST_F(WatchdogTest, AHostThatIsCutOffEndsBothSides) {
  DPTRAIN_NEEDS_MPI();
  const Hosts hosts(2);
  if (!hosts.absence().empty()) GTEST_SKIP() << hosts.absence();
  LaunchOptions options = hosts.launch_options(job().processes, folder_.path());
  options.grace_s = 1;
  Launch launch(options);
  wait_until_trained(launch);
  const std::string first = name(launch, 0, "host1"), second = name(launch, 1, "host2");
  hosts.set_link(2, false);
  launch.wait_for_ends({0, 1}, 30);
  hosts.set_link(2, true);
  const Launched launched = launch.wait();
  // Neither side can tell the other.
  expect_failed(launched.processes[0], 75, {second, " was silent for 10."});
  expect_failed(launched.processes[1], 75, {first, " was silent for 10."});
  EXPECT_EQ(fault("run/fault.json")["root"]["host"], "host2");
  EXPECT_EQ(fault("run/fault-1.json")["root"]["host"], "host1");
  expect_resumes(fault("run/fault.json"));
}

class StoppedJobTest : public WatchdogTest {
 protected:
  /// Whoever is sent the signal, all processes stop after the same step, with a checkpoint.
  void expect_stops(int number, int exit, const std::function<void(Launch&)>& send) {
    Launch launch(job(/*grace_s=*/10));
    wait_until_trained(launch);
    send(launch);
    const Launched launched = launch.wait();
    const auto summary = json_of("run/summary.json");
    const std::string sentence = fmt::format("stopped by {} after step {}; the weights are in ",
                                             number == SIGINT ? "SIGINT" : "SIGTERM", summary["steps"].get<int64_t>());
    for (const Finished& process : launched.processes) expect_failed(process, exit, {sentence});
    EXPECT_EQ(summary["exit"], exit);
    EXPECT_EQ(summary["weights_hash"], hash("run"));
    EXPECT_FALSE(exists("run/fault.json"));
  }
};

TEST_F(StoppedJobTest, SigtermOfTheLauncher) {
  DPTRAIN_NEEDS_MPI();
  expect_stops(SIGTERM, 143, [](Launch& launch) { launch.launcher().signal(SIGTERM); });
}

TEST_F(StoppedJobTest, CtrlCOfTheLauncher) {
  DPTRAIN_NEEDS_MPI();
  // mpirun ends the job with SIGTERM then.
  expect_stops(SIGTERM, 143, [](Launch& launch) { launch.launcher().signal(SIGINT); });
}

TEST_F(StoppedJobTest, SigtermOfOneProcess) {
  DPTRAIN_NEEDS_MPI();
  expect_stops(SIGTERM, 143, [](Launch& launch) { ::kill(launch.pid(1), SIGTERM); });
}

/// scripts/launch.sh with dptrain itself.
TEST_F(WatchdogTest, TheLaunchScriptStartsALostTrainingAgain) {
  DPTRAIN_NEEDS_MPI();
  folder_.write("program", "#!/usr/bin/env bash\necho $$ > \"pid.$OMPI_COMM_WORLD_RANK\"\nexec '" + dptrain_binary() +
                               "' \"$@\"\n");
  std::filesystem::permissions(path("program"), std::filesystem::perms::owner_all);
  const auto start = [&](const std::string& steps, const std::string& restarts) {
    Command all = {"/usr/bin/env",
                   "OMPI_ALLOW_RUN_AS_ROOT=1",
                   "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1",
                   source_file("scripts/launch.sh"),
                   "-n",
                   "2",
                   "--grace",
                   "3",
                   "--max-restarts",
                   restarts,
                   "--",
                   path("program")};
    const Arguments more = two_ranks("run", steps);
    all.insert(all.end(), more.begin(), more.end());
    return ProcessOptions{.command = all, .folder = folder_.path(), .timeout_s = 120, .out = {}, .err = {}};
  };
  for (const char* restarts : {"0", "1"}) {
    SCOPED_TRACE(restarts);
    std::filesystem::remove_all(path("run"));
    Process script(start("400", restarts));
    script.wait_until([this] { return has_checkpoint(); });
    ::kill(std::stoi(text("pid.1")), SIGKILL);
    const Finished finished = script.wait();
    EXPECT_EQ(finished.exit, restarts[0] == '0' ? 75 : 0) << finished.err;
  }
  train("whole", {"epochs=", "steps=400", "eval_every=0"});
  EXPECT_EQ(hash("run"), hash("whole"));
}

/// A process that trains alone.
TEST_F(WatchdogTest, AFailureOfOneProcessIsLeftBehindUntilTheNextStart) {
  const Finished failed = run(training("run", {"learning_rate=1e30", "threads=1"}));
  EXPECT_EQ(failed.exit, 79) << failed.err;
  const auto record = fault("run/fault.json");
  EXPECT_EQ(record["exit"], 79);
  EXPECT_EQ(failed.last_error(), "dptrain: " + record["root"]["cause"].get<std::string>());
  EXPECT_EQ(record["last_checkpoint"], nullptr);
  Arguments again = training("run");
  again.emplace_back("--overwrite");
  EXPECT_EQ(run(again).exit, 0);
  EXPECT_FALSE(exists("run/fault.json"));
}

}  // namespace
}  // namespace dptrain::testing
