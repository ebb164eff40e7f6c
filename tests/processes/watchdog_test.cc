// Runs of several processes, one of which dies, stops or is cut off. All processes end in time with the same message,
// and the run can be resumed.
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <regex>
#include <thread>

#include "base/sha256.h"
#include "processes/slow_disk.h"
#include "processes/watched_training.h"
#include "support/hosts.h"

namespace dptrain::testing {
namespace {

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
  const json fault = expect_lost(launched.processes[survivor], survivor, {who + " has died; it was last heard from "});
  EXPECT_EQ(fault["root"]["rank"], killed);
  EXPECT_EQ(fault["root"]["pid"], pid);
  EXPECT_EQ(fault["root"]["host"], host_name());
  EXPECT_LT(fault["detected_s"], kDeathSeen_s);
  const auto op = fault["root"]["op"].get<std::string>();
  EXPECT_TRUE(op.starts_with("collective #") || op.starts_with("message #")) << op;
  ASSERT_FALSE(fault["ring"].empty());
  const auto last = fault["ring"].back().get<std::string>();
  EXPECT_TRUE(std::regex_match(last, std::regex("[0-9]+\\.[0-9]{3} s ago: (collective|message) #[0-9]+, .*"))) << last;
  ASSERT_TRUE(fault["last_checkpoint"].is_object());
  const std::filesystem::path checkpoint = fault["last_checkpoint"]["path"].get<std::string>();
  EXPECT_EQ(fault["last_checkpoint"]["sha256"], sha256_of(text_of(checkpoint / "manifest.json")));
  expect_resumes(fault);
}

INSTANTIATE_TEST_SUITE_P(Processes, KilledProcessTest, ::testing::Values(0, 1));

/// Open MPI doesn't hold the process for 20 s, as it does before its own abort.
TEST_F(WatchdogTest, AProcessThatCrashesIsGoneAtOnce) {
  Launch launch(job());
  wait_until_trained(launch.launcher());
  const std::string who = name(launch, 1);
  ::kill(launch.pid(1), SIGSEGV);
  launch.wait_for_ends({0, 1}, kDeath_s);
  expect_lost(launch.wait().processes[0], 0, {who + " has died; it was last heard from "});
}

/// When a process has ended, mpirun sends SIGTERM to the others, which may just be about to exit.
TEST_F(WatchdogTest, ASignalAfterTheLastSentenceChangesNothing) {
  Launch launch(job(/*grace_s=*/5));
  wait_until_trained(launch.launcher());
  ::kill(launch.pid(1), SIGKILL);
  launch.launcher().wait_until([&] { return launch.err(0).find(" has died; ") != std::string::npos; });
  ::kill(launch.pid(0), SIGTERM);
  expect_lost(launch.wait().processes[0], 0, {" has died; "});
}

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
  const json fault = expect_lost(launched.processes[0], 0, {who + " was silent for ", "; it was last heard from "});
  EXPECT_LT(fault["detected_s"], kSilenceSeen_s);
  EXPECT_FALSE(is_running(launch.pid(1))) << "mpirun ends it with the job";
  expect_resumes(fault);
}

TEST_F(WatchdogTest, TheFirstProcessStoppedIsBlamedByItselfAsWell) {
  // mpirun wakes the stopped process after the others have left. It then writes the record that starts the job again.
  Launch launch(job(/*grace_s=*/3));
  wait_until_trained(launch.launcher());
  const std::string who = name(launch, 0);
  ::kill(launch.pid(0), SIGSTOP);
  launch.wait_for_ends({1}, kSilence_s);
  ::kill(launch.pid(0), SIGCONT);
  launch.wait_for_ends({0}, 3 + kSlack_s);
  const Launched launched = launch.wait();
  EXPECT_NE(launched.processes[1].err.find(who + " was silent for "), std::string::npos) << launched.processes[1].err;
  const json fault = expect_lost(launched.processes[0], 0, {who + " was silent for ", "; it was last heard from "});
  expect_resumes(fault);
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

/// mpirun's daemon on the other host isn't a child of mpirun.
TEST_F(WatchdogTest, TheLaunchersDeathEndsTheProcessesOfOtherHosts) {
  const Hosts hosts(2);
  if (!hosts.absence().empty()) GTEST_SKIP() << hosts.absence();
  LaunchOptions options = hosts.launch_options(programs(), folder_.path());
  options.grace_s = 5;
  Launch launch(options);
  wait_until_trained(launch.launcher());
  launch.launcher().signal(SIGKILL);
  launch.wait_for_ends({0, 1}, 5 + kSlack_s);
  const Launched launched = launch.wait();
  const json first = expect_lost(launched.processes[0], 0, {"the launcher of the job on host host1 ", " has died"});
  const json second = expect_lost(launched.processes[1], 1, {});
  EXPECT_EQ(first["root"], second["root"]);
  EXPECT_EQ(launched.processes[0].last_error(), launched.processes[1].last_error());
  // mpirun's daemon on the other host goes on for twice the grace time.
  hosts.wait_until_idle(2 * options.grace_s + 2 * kSlack_s);
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
  // It doesn't matter here what mpirun still waits for.
  launch.launcher().signal(SIGKILL);
  const Launched launched = launch.wait();
  // Neither side can reach the other.
  const json fault = expect_lost(launched.processes[0], 0, {second + " was silent for "});
  const json there = expect_lost(launched.processes[1], 1, {first + " was silent for "});
  EXPECT_EQ(fault["root"]["host"], "host2");
  for (const json& side : {fault, there}) EXPECT_LT(side["detected_s"], kSilenceSeen_s);
  hosts.wait_until_reached(2);
  expect_resumes(fault, hosts.on(1));
}

/// Nothing that the second host sends reaches the first. The first host's TCP gets no answer, and also stops sending.
TEST_F(WatchdogTest, ANetworkThatLosesOneDirectionEndsBothSides) {
  const Hosts hosts(2);
  if (!hosts.absence().empty()) GTEST_SKIP() << hosts.absence();
  Launch launch(hosts.launch_options(programs(2, "1000000"), folder_.path()));
  wait_until_trained(launch.launcher());
  const std::string second = name(launch, 1, "host2");
  // mpirun can reach the second host, and must not end processes there.
  launch.launcher().signal(SIGSTOP);
  const auto begun = Clock::now();
  hosts.lose(/*from=*/2, /*to=*/1);
  launch.wait_for_ends({0, 1}, kSilence_s);
  EXPECT_LT(seconds_since(begun), kSilence_s);
  launch.launcher().signal(SIGKILL);
  const Launched launched = launch.wait();
  const json fault = expect_lost(launched.processes[0], 0, {second + " was silent for "});
  // The second process may be told by the first, which it can hear, or notice later that nothing arrives any more.
  const json there = expect_lost(launched.processes[1], 1, {});
  for (const json& side : {fault, there}) EXPECT_LT(side["detected_s"], kSilenceSeen_s);
}

/// The reverse case: the first host hears the second, but the second hears nothing of the first.
TEST_F(WatchdogTest, SoDoesOneThatLosesTheOtherDirection) {
  const Hosts hosts(2);
  if (!hosts.absence().empty()) GTEST_SKIP() << hosts.absence();
  Launch launch(hosts.launch_options(programs(2, "1000000"), folder_.path()));
  wait_until_trained(launch.launcher());
  const std::string first = name(launch, 0, "host1");
  launch.launcher().signal(SIGSTOP);
  const auto begun = Clock::now();
  hosts.lose(/*from=*/1, /*to=*/2);
  launch.wait_for_ends({0, 1}, kSilence_s);
  EXPECT_LT(seconds_since(begun), kSilence_s);
  launch.launcher().signal(SIGKILL);
  const Launched launched = launch.wait();
  const json there = expect_lost(launched.processes[1], 1, {first + " was silent for "});
  const json fault = expect_lost(launched.processes[0], 0, {});
  for (const json& side : {fault, there}) EXPECT_LT(side["detected_s"], kSilenceSeen_s);
}

/// On the side with two processes both report the same, and the first process writes fault.json.
TEST_F(WatchdogTest, OfThreeHostsBothSidesOfACutEnd) {
  const Hosts hosts(3);
  if (!hosts.absence().empty()) GTEST_SKIP() << hosts.absence();
  Launch launch(hosts.launch_options(programs(3, "1000000"), folder_.path()));
  wait_until_trained(launch.launcher());
  const std::string third = name(launch, 2, "host3");
  launch.launcher().signal(SIGSTOP);
  const auto begun = Clock::now();
  hosts.set_link(3, false);
  launch.wait_for_ends({0, 1, 2}, kSilence_s);
  EXPECT_LT(seconds_since(begun), kSilence_s);
  launch.launcher().signal(SIGKILL);
  const Launched launched = launch.wait();
  const json fault = expect_lost(launched.processes[0], 0, {third + " was silent for "});
  EXPECT_EQ(fault["root"], expect_lost(launched.processes[1], 1, {})["root"]);
  EXPECT_EQ(launched.processes[0].last_error(), launched.processes[1].last_error());
  const json there = expect_lost(launched.processes[2], 2, {" was silent for "});
  for (const json& side : {fault, there}) EXPECT_LT(side["detected_s"], kSilenceSeen_s);
}

TEST_F(WatchdogTest, ALinkThatIsDownForTwoSecondsIsNoLossAndChangesNoBit) {
  const Hosts hosts(2);
  if (!hosts.absence().empty()) GTEST_SKIP() << hosts.absence();
  Launch launch(hosts.launch_options(programs(), folder_.path()));
  wait_until_trained(launch.launcher());
  hosts.set_link(2, false);
  std::this_thread::sleep_for(std::chrono::seconds(2));
  EXPECT_FALSE(launch.has_ended(0) || launch.has_ended(1)) << "the link was down while they trained";
  hosts.set_link(2, true);
  const Launched launched = launch.wait();
  for (const Finished& process : launched.processes) {
    EXPECT_EQ(process.exit, 0) << process.err;
    // TCP resumes sending a while after the link is up again.
    for (const std::string& line : lines_of(process.err))
      EXPECT_NE(line.find(" was silent for "), std::string::npos) << process.err;
  }
  EXPECT_FALSE(std::filesystem::exists(run("run") / "fault.json"));
  expect_bits_of_one_process();
}

TEST_F(WatchdogTest, AProcessThatIsKilledOnAnotherHostEndsAllInTheSameWords) {
  const Hosts hosts(3);
  if (!hosts.absence().empty()) GTEST_SKIP() << hosts.absence();
  Launch launch(hosts.launch_options(programs(3, "1000000"), folder_.path()));
  wait_until_trained(launch.launcher());
  const std::string who = name(launch, 2, "host3");
  // mpirun must not end processes here.
  launch.launcher().signal(SIGSTOP);
  const auto begun = Clock::now();
  ::kill(launch.pid(2), SIGKILL);
  launch.wait_for_ends({0, 1}, kSilence_s);
  EXPECT_LT(seconds_since(begun), kSilence_s);
  launch.launcher().signal(SIGKILL);
  const Launched launched = launch.wait();
  const json fault = expect_lost(launched.processes[0], 0, {who + " was silent for "});
  EXPECT_LT(fault["detected_s"], kSilenceSeen_s);
  EXPECT_EQ(fault["root"], expect_lost(launched.processes[1], 1, {})["root"]);
  EXPECT_EQ(launched.processes[0].last_error(), launched.processes[1].last_error());
}

/// More than eight processes send their heartbeats to the first one alone, which tells them of each other.
class ManyProcessesTest : public WatchdogTest, public ::testing::WithParamInterface<int> {};

TEST_P(ManyProcessesTest, WhicheverIsStoppedAllOthersEndInTheSameWords) {
  const Hosts hosts(3);
  if (!hosts.absence().empty()) GTEST_SKIP() << hosts.absence();
  LaunchOptions options = hosts.launch_options(programs(9, "1000000"), folder_.path());
  for (Command& command : options.processes) command.insert(command.end(), {"--set", "batch_size=90"});
  Launch launch(options);
  wait_until_trained(launch.launcher());
  const auto stopped = static_cast<size_t>(GetParam());
  const std::string who = name(launch, stopped, fmt::format("host{}", stopped / 3 + 1));
  std::vector<size_t> others;
  for (size_t i = 0; i < 9; ++i)
    if (i != stopped) others.push_back(i);
  // mpirun must not end processes here.
  launch.launcher().signal(SIGSTOP);
  ::kill(launch.pid(stopped), SIGSTOP);
  launch.wait_for_ends(others, kSilence_s);
  launch.launcher().signal(SIGKILL);
  ::kill(launch.pid(stopped), SIGKILL);
  const Launched launched = launch.wait();
  json first;
  for (const size_t one : others) {
    const json fault = expect_lost(launched.processes[one], one, {who + " was silent for "});
    if (first.is_null()) first = fault;
    EXPECT_EQ(fault["root"], first["root"]) << one;
    EXPECT_LT(fault["detected_s"], kSilenceSeen_s) << one;
  }
}

INSTANTIATE_TEST_SUITE_P(Processes, ManyProcessesTest, ::testing::Values(0, 4));

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

/// The training thread hangs in the evaluation, as it may in any call, while all other threads of its process go on.
TEST_F(WatchdogTest, AHungThreadEndsTheJobByTheDeadlineOfItsProcess) {
  LaunchOptions options = job(/*grace_s=*/1);
  for (Command& command : options.processes)
    for (const char* setting : {"steps=", "epochs=3", "eval_every=1", "checkpoint={every_epochs: 1}", "timeout_s=5",
                                // With this many samples the evaluation takes a second or more.
                                "dataset={name: synthetic, samples: 320, test_samples: 100000}"})
      command.insert(command.end(), {"--set", setting});
  Launch launch(options);
  const auto first = run("run") / "checkpoints" / "step-000005" / "manifest.json";
  launch.launcher().wait_until([&first] { return std::filesystem::exists(first); });
  // By then both processes are in the evaluation. A process that is stopped while it waits for the other's disk doesn't
  // count as hung.
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  const std::string who = name(launch, 1);
  const pid_t pid = launch.pid(1);
  if (::ptrace(PTRACE_SEIZE, pid, nullptr, nullptr) != 0) GTEST_SKIP() << "this machine lets nobody stop a thread";
  ASSERT_EQ(::ptrace(PTRACE_INTERRUPT, pid, nullptr, nullptr), 0);
  const auto begun = Clock::now();
  // The hang is known five seconds after the last progress, as the message says. Then all processes agree on the cause,
  // and each has time to end by itself, even in the middle of the evaluation. The five seconds begin later if the other
  // process's disk is slow, or if the machine is so busy that the rest of the evaluation takes 20 seconds.
  launch.wait_for_ends({0}, 4 * kSilence_s);
  EXPECT_GT(seconds_since(begun), 4.5);
  // The tracer of a process must be told of its end first.
  for (int status = 0; ::waitpid(pid, &status, __WALL) == pid && !WIFEXITED(status) && !WIFSIGNALED(status);) continue;
  const Launched launched = launch.wait();
  EXPECT_EQ(launched.processes[1].exit, 75);
  const json fault =
      expect_lost(launched.processes[0], 0, {who + " made no progress for ", " s, in the evaluation after step 5;"});
  EXPECT_GE(fault["detected_s"], 5);
  EXPECT_LT(fault["detected_s"], kSilence_s);
  EXPECT_EQ(fault["root"]["rank"], 1);
  EXPECT_EQ(fault["stacks"], nullptr);
  EXPECT_EQ(launched.processes[0].last_error(), launched.processes[1].last_error());
  // The thread is held as a device or a disk may hold it; all other threads of its process report where they are.
  const std::string stacks = text_of(run("run") / "fault-1.stacks.txt");
  EXPECT_NE(stacks.find(fmt::format("thread {} (", pid)), std::string::npos) << stacks;
  EXPECT_NE(stacks.find(", stopped by its tracer: it did not answer\n"), std::string::npos) << stacks;
  EXPECT_NE(stacks.find("dptrain::JobWatchdog::guard()"), std::string::npos) << stacks;
}

TEST_F(WatchdogTest, AHungProcessLeavesTheStacksOfItsThreads) {
  DPTRAIN_NEEDS_SLOW_DISK();
  const SlowDisk disk;
  LaunchOptions options = job(/*grace_s=*/1, /*steps=*/"1000000");
  for (Command& command : options.processes) command.insert(command.end(), {"--set", "timeout_s=5"});
  options.processes[0] = disk.with(options.processes[0]);
  Launch launch(options);
  wait_until_trained(launch.launcher());
  const pid_t pid = launch.pid(0);
  const std::string who = name(launch, 0);
  // The next sync of a file, of metrics or a checkpoint, never ends.
  disk.slow(/*sync_s=*/1000, /*read_s=*/0);
  launch.wait_for_ends({0, 1}, 5 + 4 + kSlack_s);
  const Launched launched = launch.wait();
  const json fault = expect_lost(launched.processes[0], 0, {who + " made no progress for "});
  EXPECT_EQ(fault["stacks"], "fault.stacks.txt");
  EXPECT_EQ(expect_lost(launched.processes[1], 1, {})["stacks"], nullptr);
  EXPECT_FALSE(std::filesystem::exists(run("run") / "fault-1.stacks.txt"));
  // The stack of the thread that hangs, from the inside outward.
  const std::string stacks = text_of(run("run") / "fault.stacks.txt");
  size_t at = 0;
  for (const std::string& words :
       {fmt::format("thread {} (", pid), std::string("\n  fsync + 0x"), std::string("(libslow_disk.so + 0x"),
        std::string("\n  dptrain::train::Trainer::run("), std::string("\n  main + 0x")}) {
    at = stacks.find(words, at);
    ASSERT_NE(at, std::string::npos) << words << " in\n" << stacks;
  }
  EXPECT_LT(at, stacks.find("\n\n")) << "all of it is the first thread's\n" << stacks;
  disk.mend();
  Command again = program("run", 1, "1");
  again.push_back("--overwrite");
  EXPECT_EQ(alone(again).exit, 0);
  EXPECT_FALSE(std::filesystem::exists(run("run") / "fault.stacks.txt")) << "it goes with the next start";
}

/// If other programs write, a sync may take longer than a process has to end.
TEST_F(WatchdogTest, ABusyDiskKeepsNobodyFromLeavingItsRecord) {
  DPTRAIN_NEEDS_SLOW_DISK();
  const SlowDisk disk;
  LaunchOptions options = job(/*grace_s=*/5);
  for (Command& command : options.processes) command = disk.with(command);
  Launch launch(options);
  wait_until_trained(launch.launcher());
  disk.slow(/*sync_s=*/4, /*read_s=*/0);
  ::kill(launch.pid(1), SIGKILL);
  launch.wait_for_ends({0}, kDeath_s);
  expect_lost(launch.wait().processes[0], 0, {" has died; "});
}

/// The disk is that of the process that writes for all. The others neither wait for it nor report it lost.
TEST_F(WatchdogTest, AFullDiskEndsAllAndLeavesTheCheckpointBefore) {
  Launch launch(job(/*grace_s=*/3, /*steps=*/"200"));
  wait_until_trained(launch.launcher());
  // Writing past this size fails, as on a full disk; fault.json still fits.
  const rlimit small{100'000, RLIM_INFINITY};
  ASSERT_EQ(::prlimit(launch.pid(0), RLIMIT_FSIZE, &small, nullptr), 0);
  launch.wait_for_ends({0, 1}, 30);
  const Launched launched = launch.wait();
  for (const Finished& process : launched.processes) {
    EXPECT_EQ(process.exit, 74) << process.err;
    EXPECT_EQ(process.last_error(), launched.processes[0].last_error());
  }
  const json fault = json::parse(text_of(run("run") / "fault.json"), nullptr, false);
  ASSERT_TRUE(fault.is_object()) << launched.processes[0].err;
  EXPECT_EQ(fault["exit"], 74);
  EXPECT_EQ(fault["root"]["kind"], "io");
  const auto cause = fault["root"]["cause"].get<std::string>();
  EXPECT_NE(cause.find("/model.safetensors"), std::string::npos) << cause;
  EXPECT_NE(cause.find(": could not write: "), std::string::npos) << cause;
  EXPECT_EQ(launched.processes[0].last_error(), "dptrain: " + cause);
  ASSERT_TRUE(fault["last_checkpoint"].is_object()) << fault;
  const std::filesystem::path newest = fault["last_checkpoint"]["path"].get<std::string>();
  EXPECT_EQ(fault["last_checkpoint"]["sha256"], sha256_of(text_of(newest / "manifest.json")));
  for (const auto& entry : std::filesystem::directory_iterator(run("run") / "checkpoints"))
    EXPECT_LE(entry.path().filename().string(), newest.filename().string()) << "nothing of the one that did not fit";
  // The run resumes once there is space.
  expect_resumes(fault);
}

/// This process trains alone.
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
