// A process is lost, or asked to stop, while the processes of a job still wait for each other in MPI.
#include <fmt/format.h>

#include "processes/watched_training.h"

namespace dptrain::testing {
namespace {

/// Two processes of dptrain join a job, and its third process never comes.
class JoiningTest : public WatchdogTest {
 protected:
  LaunchOptions job() const {
    LaunchOptions options;
    options.processes = programs();
    options.processes.push_back({"/bin/sleep", "100"});
    options.folder = folder_.path();
    // Long enough that no process is ended by Open MPI's signals.
    options.grace_s = 10;
    return options;
  }
  /// Waits until both processes have started to join, and have left their marks (comm/join_marks.h).
  static void wait_until_joining(Launch& launch) {
    for (const size_t process : {0u, 1u})
      launch.launcher().wait_until([&] {
        const std::string folder = variable_of(launch.pid(process), "OMPI_MCA_orte_jobfam_session_dir");
        return !folder.empty() && !text_of(fmt::format("{}/dptrain-joins-{}", folder, process)).empty();
      });
  }
  /// Lets both processes end by themselves; mpirun would go on waiting for the third.
  static Launched left_to_end(Launch& launch) {
    for (size_t process = 0; process < 3; ++process)
      if (!launch.has_ended(process)) ::kill(launch.pid(process), SIGKILL);
    launch.launcher().signal(SIGKILL);
    return launch.wait();
  }
  static pid_t parent_of(pid_t child) {
    const std::string stat = text_of(fmt::format("/proc/{}/stat", child));
    return std::stoi(stat.substr(stat.rfind(')') + 4));
  }
  static std::string variable_of(pid_t pid, const std::string& name) {
    std::string variables = text_of(fmt::format("/proc/{}/environ", pid));
    std::ranges::replace(variables, '\0', '\n');
    for (const std::string& variable : lines_of(variables))
      if (variable.starts_with(name + "=")) return variable.substr(name.size() + 1);
    return {};
  }
};

TEST_F(JoiningTest, AProcessThatIsKilledEndsTheOtherAndLeavesItsRecord) {
  Launch launch(job());
  wait_until_joining(launch);
  const pid_t killed = launch.pid(0);
  ::kill(killed, SIGKILL);
  launch.wait_for_ends({1}, kDeath_s);
  const Finished ended = left_to_end(launch).processes[1];
  EXPECT_EQ(ended.exit, 75) << ended.err;
  const std::string sentence =
      fmt::format("process 0 (host {}, pid {}) has died before all processes had joined the job", host_name(), killed);
  EXPECT_EQ(ended.last_error(), "dptrain: " + sentence);
  const json fault = expect_unbegun_fault(run("run"), 75, sentence);
  EXPECT_EQ(fault["rank"], nullptr) << "the first one that lives";
  EXPECT_EQ(fault["root"]["pid"], killed);
}

/// Such a process may be killed while the system still loads it, before the others know of it.
TEST_F(JoiningTest, AProcessThatIsKilledBeforeItHasDoneAnythingEndsTheOthers) {
  Launch launch(job());
  wait_until_joining(launch);
  // mpirun has started a script, which ends with its program.
  const pid_t killed = parent_of(launch.pid(2));
  ::kill(launch.pid(2), SIGKILL);
  launch.wait_for_ends({0, 1}, kDeath_s);
  const Launched ended = left_to_end(launch);
  const std::string sentence =
      fmt::format("process 2 (host {}, pid {}) has died before all processes had joined the job", host_name(), killed);
  for (const size_t process : {0u, 1u}) {
    EXPECT_EQ(ended.processes[process].exit, 75) << ended.processes[process].err;
    EXPECT_NE(ended.processes[process].err.find(sentence), std::string::npos) << ended.processes[process].err;
  }
  EXPECT_EQ(expect_unbegun_fault(run("run"), 75, sentence)["root"]["pid"], killed);
}

/// The process dies before the others could see it.
TEST_F(JoiningTest, AProcessThatHasDiedBeforeTheOthersBeganEndsThem) {
  LaunchOptions options = job();
  for (const size_t process : {0u, 1u}) {
    Command& late = options.processes[process];
    late.insert(late.begin(), {"/bin/bash", "-c", "sleep 1; exec \"$0\" \"$@\""});
  }
  options.processes[2] = {"/bin/bash", "-c", "kill -9 $$"};
  const auto begun = Clock::now();
  Launch launch(options);
  launch.wait_for_ends({0, 1}, 1 + 3 + kSlack_s);
  EXPECT_GE(seconds_since(begun), 1);
  const Launched ended = left_to_end(launch);
  for (const size_t process : {0u, 1u}) EXPECT_EQ(ended.processes[process].exit, 75) << ended.processes[process].err;
  expect_unbegun_fault(
      run("run"), 75,
      fmt::format("one of the 3 processes on host {} has died before all processes had joined the job", host_name()));
}

/// The cause that is reported is the process's own sentence, and not its disappearance.
TEST_F(JoiningTest, AProcessThatEndsByItselfEndsTheOthersWithItsExitCode) {
  LaunchOptions options = job();
  options.processes[2] = {dptrain_binary(), "--confg", "lenet_1cpu"};
  Launch launch(options);
  launch.wait_for_ends({0, 1, 2}, 2 + kSlack_s);
  const Launched ended = left_to_end(launch);
  EXPECT_EQ(ended.processes[2].exit, 64);
  for (const size_t process : {0u, 1u}) {
    EXPECT_EQ(ended.processes[process].exit, 64);
    EXPECT_EQ(ended.processes[process].last_error(),
              fmt::format("dptrain: process 2 (host {}) has ended with exit code 64 before all processes had joined "
                          "the job; see its own message",
                          host_name()));
  }
  EXPECT_FALSE(std::filesystem::exists(run("run") / "fault.json"));
}

TEST_F(JoiningTest, TheLaunchersDeathEndsAll) {
  Launch launch(job());
  wait_until_joining(launch);
  launch.launcher().signal(SIGKILL);
  launch.wait_for_ends({0, 1}, kDeath_s);
  for (const Finished& ended : launch.wait().processes) {
    if (ended.err.empty()) continue;  // this is the third process
    EXPECT_EQ(ended.exit, 75) << ended.err;
    EXPECT_NE(ended.last_error().find("the launcher of the job on host "), std::string::npos) << ended.err;
  }
}

/// The launcher may be killed while it starts the job. A process that begins later has no launcher that it could see
/// die.
TEST_F(JoiningTest, AProcessThatBeginsAfterItsLaunchersDeathEndsAtOnce) {
  LaunchOptions options = job();
  folder_.write("late", "while [[ ! -e go ]]; do sleep 0.05; done; exec \"$@\"\n");
  options.processes[0].insert(options.processes[0].begin(), {"/bin/bash", "late"});
  Launch launch(options);
  launch.launcher().wait_until([&] { return launch.has_started(0) && launch.has_started(1) && launch.has_started(2); });
  launch.launcher().signal(SIGKILL);
  launch.wait_for_ends({1}, kDeath_s);
  if (parent_of(parent_of(launch.pid(0))) != 1) GTEST_SKIP() << "who has lost its parent isn't the first process's";
  folder_.write("go", "");
  launch.wait_for_ends({0}, kDeath_s);
  const Finished ended = left_to_end(launch).processes[0];
  EXPECT_EQ(ended.exit, 75) << ended.err;
  EXPECT_EQ(ended.last_error(),
            fmt::format("dptrain: the launcher of the job on host {} had died before this process began", host_name()));
}

TEST_F(JoiningTest, ASignalEndsIt) {
  Launch launch(job());
  wait_until_joining(launch);
  ::kill(launch.pid(0), SIGTERM);
  launch.wait_for_ends({0}, 2 + kSlack_s);
  EXPECT_NE(launch.err(0).find("dptrain: stopped by SIGTERM before all processes had joined the job\n"),
            std::string::npos)
      << launch.err(0);
  EXPECT_FALSE(std::filesystem::exists(run("run"))) << "a stop is no failure";
  EXPECT_EQ(left_to_end(launch).processes[0].exit, 143);
}

/// The host may be busy, or a script may first copy data.
TEST_F(JoiningTest, AProcessThatComesLateTrainsWithTheOthers) {
  LaunchOptions options;
  options.processes = programs(2, "20");
  Command& late = options.processes[1];
  late.insert(late.begin(), {"/bin/bash", "-c", "sleep 3; exec \"$0\" \"$@\""});
  options.folder = folder_.path();
  for (const Finished& process : Launch(options).wait().processes) EXPECT_EQ(process.exit, 0) << process.err;
  EXPECT_EQ(json::parse(text_of(run("run") / "summary.json"))["steps"], 20);
}

}  // namespace
}  // namespace dptrain::testing
