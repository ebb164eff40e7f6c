// Trainings of several processes of which one dies, stops or is cut off, or which are asked to stop: all processes end
// in time, in the same words, and the training goes on where it was.
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <optional>
#include <thread>

#include "processes/job_training.h"
#include "support/hosts.h"
#include "support/json_schema.h"

namespace dptrain::testing {
namespace {

using Clock = std::chrono::steady_clock;

/// What a busy machine may add to the bounds that are promised.
constexpr double kSlack_s = 3;
constexpr double kDeath_s = 1 + kSlack_s;
constexpr double kSilence_s = 12 + kSlack_s;

double seconds_since(Clock::time_point begun) { return std::chrono::duration<double>(Clock::now() - begun).count(); }

/// A training by two processes of one rank each that runs for some seconds.
class WatchdogTest : public JobTrainingTest {
 protected:
  Command program(const std::string& name, int devices, const std::string& steps = "200") const {
    return training(
        name, "lenet_ddp_2cpu", devices,
        {"--set", "epochs=", "--set", "steps=" + steps, "--set", "eval_every=0", "--set", "dataset.limit=320", "--set",
         "dataset.test_limit=200", "--set", "checkpoint={every_epochs: 0, every_steps: 20}"});
  }
  std::vector<Command> programs(size_t count = 2, const std::string& steps = "200") const {
    return std::vector<Command>(count, program("run", 1, steps));
  }
  LaunchOptions job(int grace_s = 2, const std::string& steps = "200") const {
    LaunchOptions options;
    options.processes = programs(2, steps);
    options.folder = folder_.path();
    options.grace_s = grace_s;
    options.timeout_s = 120;
    return options;
  }
  /// Until the second checkpoint, so that all know of the first.
  void wait_until_trained(Process& process) const {
    const auto second = run("run") / "checkpoints" / "step-000040" / "manifest.json";
    process.wait_until([&second] { return std::filesystem::exists(second); });
  }

  static std::string host_name() {
    std::array<char, 256> name = {};
    EXPECT_EQ(::gethostname(name.data(), name.size() - 1), 0);
    return name.data();
  }
  /// "process 1 (host h, pid 77, rank 1)"
  static std::string name(const Launch& launch, size_t process, const std::string& host = host_name()) {
    return fmt::format("process {} (host {}, pid {}, rank {})", process, host, launch.pid(process), process);
  }

  /// What a survivor has written down and said, which are the same.
  json expect_lost(const Finished& survivor, size_t process, const std::vector<std::string>& words) const {
    EXPECT_EQ(survivor.exit, 75) << survivor.err;
    const auto file = run("run") / (process == 0 ? "fault.json" : fmt::format("fault-{}.json", process));
    json fault = json::parse(text_of(file), nullptr, false);
    if (!fault.is_object()) {
      ADD_FAILURE() << file << ": " << text_of(file) << survivor.err;
      return json::object();
    }
    const json schema = json::parse(text_of(source_file("docs/fault.schema.json")));
    EXPECT_EQ(JsonSchema(schema).violations(fault), std::vector<std::string>()) << fault;
    EXPECT_EQ(fault["exit"], 75);
    EXPECT_EQ(fault["rank"], process);
    EXPECT_EQ(fault["root"]["kind"], "peer_lost");
    const std::string cause = fault["root"]["cause"];
    for (const auto& word : words) EXPECT_NE(cause.find(word), std::string::npos) << word << " in " << cause;
    const int64_t lost = fault["steps_lost"];
    EXPECT_EQ(survivor.last_error(), fmt::format("dptrain: {}; {} {} lost, resume with: {}", cause, lost,
                                                 lost == 1 ? "step" : "steps", fault["resume"].get<std::string>()));
    return fault;
  }
  std::string hash(const std::string& name) const {
    const Finished finished = alone({DPTRAIN_BINARY, "hash", run(name).string()});
    EXPECT_EQ(finished.exit, 0) << finished.err;
    return finished.out;
  }
  void expect_bits_of_one_process() const {
    const Finished whole = alone(program("whole", 2));
    EXPECT_EQ(whole.exit, 0) << whole.err;
    EXPECT_EQ(hash("run"), hash("whole"));
  }
  /// The command that the record has goes on from the checkpoint that it names, to the bits of a training that was
  /// never interrupted.
  void expect_resumes(const json& fault, Command on = {}) const {
    ASSERT_TRUE(fault.contains("resume") && fault["last_checkpoint"].is_object()) << fault;
    EXPECT_TRUE(std::filesystem::exists(fault["last_checkpoint"]["path"].get<std::string>())) << fault;
    on.insert(on.end(), {"/usr/bin/env", "OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1", "/bin/sh",
                         "-c", fault["resume"]});
    const Finished resumed = alone(on);
    EXPECT_EQ(resumed.exit, 0) << resumed.err << fault;
    for (const char* file : {"fault.json", "fault-1.json"})
      EXPECT_FALSE(std::filesystem::exists(run("run") / file)) << file;
    expect_bits_of_one_process();
  }
};

class KilledProcessTest : public WatchdogTest, public ::testing::WithParamInterface<size_t> {};

TEST_P(KilledProcessTest, EndsTheOtherWithinASecondAndTheTrainingGoesOn) {
  const size_t killed = GetParam(), survivor = 1 - killed;
  Launch launch(job());
  wait_until_trained(launch.launcher());
  const std::string who = name(launch, killed);
  const pid_t pid = launch.pid(killed);
  const auto begun = Clock::now();
  ::kill(pid, SIGKILL);
  launch.wait_for_ends({survivor}, kDeath_s);
  EXPECT_LT(seconds_since(begun), kDeath_s);
  const Launched launched = launch.wait();
  const json fault = expect_lost(launched.processes[survivor], survivor, {who + " has died; it was last heard of in "});
  EXPECT_EQ(fault["root"]["rank"], killed);
  EXPECT_EQ(fault["root"]["pid"], pid);
  EXPECT_EQ(fault["root"]["host"], host_name());
  EXPECT_LT(fault["detected_s"], kDeath_s);
  EXPECT_NE(fault["root"]["op"].get<std::string>().find("collective #"), std::string::npos) << fault;
  expect_resumes(fault);
}

INSTANTIATE_TEST_SUITE_P(Processes, KilledProcessTest, ::testing::Values(0, 1));

TEST_F(WatchdogTest, AStoppedProcessEndsTheOther) {
  Launch launch(job(/*grace_s=*/1));
  wait_until_trained(launch.launcher());
  const std::string who = name(launch, 1);
  const auto begun = Clock::now();
  ::kill(launch.pid(1), SIGSTOP);
  launch.wait_for_ends({0}, kSilence_s);
  EXPECT_LT(seconds_since(begun), kSilence_s);
  EXPECT_GT(seconds_since(begun), 5.5) << "a pause of five seconds is none";
  const Launched launched = launch.wait();
  expect_resumes(expect_lost(launched.processes[0], 0, {who + " was silent for ", "; it was last heard of in "}));
}

TEST_F(WatchdogTest, AProcessThatIsStoppedForFiveSecondsIsToldOfOnce) {
  Launch launch(job());
  wait_until_trained(launch.launcher());
  const std::string who = name(launch, 1);
  ::kill(launch.pid(1), SIGSTOP);
  std::this_thread::sleep_for(std::chrono::seconds(5));
  ::kill(launch.pid(1), SIGCONT);
  const Launched launched = launch.wait();
  for (const Finished& process : launched.processes) EXPECT_EQ(process.exit, 0) << process.err;
  EXPECT_EQ(launched.processes[1].err, "");
  const auto said = lines_of(launched.processes[0].err);
  ASSERT_EQ(said.size(), 1u) << launched.processes[0].err;
  EXPECT_TRUE(said[0].starts_with("dptrain: " + who + " was silent for ")) << said[0];
  EXPECT_GE(std::stod(said[0].substr(said[0].rfind(" for ") + 5)), 4.5) << said[0];
  EXPECT_FALSE(std::filesystem::exists(run("run") / "fault.json"));
  expect_bits_of_one_process();
}

TEST_F(WatchdogTest, TheLaunchersDeathEndsAll) {
  Launch launch(job());
  wait_until_trained(launch.launcher());
  launch.launcher().signal(SIGKILL);
  launch.wait_for_ends({0, 1}, 5 + kSlack_s);
  const Launched launched = launch.wait();
  const json first = expect_lost(launched.processes[0], 0, {"the launcher of the job on host ", " has died"});
  const json second = expect_lost(launched.processes[1], 1, {});
  EXPECT_EQ(first["root"], second["root"]);
  EXPECT_EQ(launched.processes[0].last_error(), launched.processes[1].last_error());
  expect_resumes(first);
}

TEST_F(WatchdogTest, AHostThatIsCutOffEndsBothSides) {
  const Hosts hosts(2);
  if (!hosts.absence().empty()) GTEST_SKIP() << hosts.absence();
  Launch launch(hosts.launch_options(programs(), folder_.path()));
  wait_until_trained(launch.launcher());
  const std::string first = name(launch, 0, "host1"), second = name(launch, 1, "host2");
  const auto begun = Clock::now();
  hosts.set_link(2, false);
  launch.wait_for_ends({0, 1}, kSilence_s);
  EXPECT_LT(seconds_since(begun), kSilence_s);
  hosts.set_link(2, true);
  // What holds mpirun then is its own affair.
  launch.launcher().signal(SIGKILL);
  const Launched launched = launch.wait();
  // Neither side can tell the other.
  const json fault = expect_lost(launched.processes[0], 0, {second + " was silent for "});
  expect_lost(launched.processes[1], 1, {first + " was silent for "});
  EXPECT_EQ(fault["root"]["host"], "host2");
  hosts.wait_until_reached(2);
  expect_resumes(fault, hosts.on(1));
}

TEST_F(WatchdogTest, AProcessThatIsKilledOnAnotherHostEndsAllInTheSameWords) {
  const Hosts hosts(3);
  if (!hosts.absence().empty()) GTEST_SKIP() << hosts.absence();
  Launch launch(hosts.launch_options(programs(3, "1000000"), folder_.path()));
  wait_until_trained(launch.launcher());
  const std::string who = name(launch, 2, "host3");
  // mpirun is to end nobody here.
  launch.launcher().signal(SIGSTOP);
  const auto begun = Clock::now();
  ::kill(launch.pid(2), SIGKILL);
  launch.wait_for_ends({0, 1}, kSilence_s);
  EXPECT_LT(seconds_since(begun), kSilence_s);
  launch.launcher().signal(SIGKILL);
  const Launched launched = launch.wait();
  const json fault = expect_lost(launched.processes[0], 0, {who + " was silent for "});
  EXPECT_EQ(fault["root"], expect_lost(launched.processes[1], 1, {})["root"]);
  EXPECT_EQ(launched.processes[0].last_error(), launched.processes[1].last_error());
}

TEST_F(WatchdogTest, ASignalWhileAProcessIsSilentIsALoss) {
  Launch launch(job(/*grace_s=*/1));
  wait_until_trained(launch.launcher());
  const std::string who = name(launch, 1);
  ::kill(launch.pid(1), SIGSTOP);
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  const auto begun = Clock::now();
  ::kill(launch.pid(0), SIGTERM);
  launch.wait_for_ends({0}, 3 + kSlack_s);
  EXPECT_LT(seconds_since(begun), 3 + kSlack_s);
  ::kill(launch.pid(1), SIGKILL);
  expect_lost(launch.wait().processes[0], 0, {who + " was silent for "});
}

class StoppedJobTest : public WatchdogTest {
 protected:
  /// Whoever is sent the signal, all processes stop after the same step, with a checkpoint, and none is left.
  void expect_stops(const std::function<void(Launch&)>& send) {
    Launch launch(job(/*grace_s=*/2, /*steps=*/"1000000"));
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
  }
};

TEST_F(StoppedJobTest, SigtermOfTheLauncher) {
  expect_stops([](Launch& launch) { launch.launcher().signal(SIGTERM); });
}

TEST_F(StoppedJobTest, CtrlCOfTheLauncher) {
  // mpirun ends the job with SIGTERM then.
  expect_stops([](Launch& launch) { launch.launcher().signal(SIGINT); });
}

TEST_F(StoppedJobTest, SigtermOfOneProcess) {
  expect_stops([](Launch& launch) { ::kill(launch.pid(1), SIGTERM); });
}

/// scripts/launch.sh with dptrain itself.
class LaunchedTrainingTest : public WatchdogTest {
 protected:
  ProcessOptions script(const std::string& restarts) const {
    folder_.write("program", "#!/usr/bin/env bash\necho $$ > \"pid.$OMPI_COMM_WORLD_RANK\"\nexec \"$@\"\n");
    std::filesystem::permissions(folder_.path() / "program", std::filesystem::perms::owner_all);
    Command all = {"/usr/bin/env", "OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1"};
    for (const auto& word : {source_file("scripts/launch.sh"), std::string("-n"), std::string("2"),
                             std::string("--grace"), std::string("1"), std::string("--max-restarts"), restarts,
                             std::string("--"), (folder_.path() / "program").string()})
      all.push_back(word);
    const Command command = program("run", 1);
    all.insert(all.end(), command.begin(), command.end());
    return {.command = all, .folder = folder_.path(), .timeout_s = 120, .out = {}, .err = {}};
  }
  void kill_process(size_t process) const {
    ::kill(std::stoi(text_of(folder_.path() / fmt::format("pid.{}", process))), SIGKILL);
  }
};

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
  EXPECT_NE(finished.err.find("launch: a process was lost; starting again, 1 of 1"), std::string::npos) << finished.err;
  expect_bits_of_one_process();
}

/// A process that trains alone.
TEST_F(WatchdogTest, AFailureOfOneProcessIsLeftBehindUntilTheNextStart) {
  Command diverging = program("run", 1);
  diverging.insert(diverging.end(), {"--set", "learning_rate=1e30"});
  const Finished failed = alone(diverging);
  EXPECT_EQ(failed.exit, 79) << failed.err;
  const json fault = json::parse(text_of(run("run") / "fault.json"), nullptr, false);
  ASSERT_TRUE(fault.is_object());
  EXPECT_EQ(fault["exit"], 79);
  EXPECT_EQ(fault["root"]["kind"], "diverged");
  EXPECT_EQ(failed.last_error(), "dptrain: " + fault["root"]["cause"].get<std::string>());
  EXPECT_EQ(fault["last_checkpoint"], nullptr);
  EXPECT_EQ(alone(program("run", 1)).exit, 0);
  EXPECT_FALSE(std::filesystem::exists(run("run") / "fault.json"));
}

}  // namespace
}  // namespace dptrain::testing
