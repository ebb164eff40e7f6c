// scripts/launch.sh: what it starts on which host, what it returns, and when it starts a job again.
#include <signal.h>

#include <chrono>
#include <thread>

#include "processes/watched_training.h"
#include "support/hosts.h"
#include "support/needed_hosts.h"

namespace dptrain::testing {
namespace {

/// A shell script takes the place of dptrain.
class LaunchScriptTest : public ::testing::Test {
 protected:
  void write_program(const std::string& body) const {
    folder_.write("program", "#!/usr/bin/env bash\nrank=$OMPI_COMM_WORLD_RANK\n" + body);
    std::filesystem::permissions(folder_.path() / "program", std::filesystem::perms::owner_all);
  }
  ProcessOptions launch_script(const Command& options, const Command& on = {}) const {
    Command command = on;
    const auto add = [&command](const Command& more) { command.insert(command.end(), more.begin(), more.end()); };
    add({"/usr/bin/env", "OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1"});
    if (!on.empty())
      add({"OMPI_MCA_btl=tcp,self", "OMPI_MCA_btl_tcp_if_include=10.77.0.0/24",
           "OMPI_MCA_oob_tcp_if_include=10.77.0.0/24"});
    add({source_file("scripts/launch.sh"), "--grace", "0"});
    add(options);
    return {.command = command, .folder = folder_.path(), .timeout_s = 60, .out = {}, .err = {}};
  }
  Finished run(const Command& options) const { return Process(launch_script(options)).wait(); }
  std::string text(const std::string& name) const { return text_of(folder_.path() / name); }
  static std::vector<std::string> sorted_lines(const std::string& text) {
    auto lines = lines_of(text);
    std::ranges::sort(lines);
    return lines;
  }

  ScratchFolder folder_;
};

TEST_F(LaunchScriptTest, StartsProcessesAndShowsTheLineThatDoes) {
  DPTRAIN_NEEDS_MPI();
  write_program("echo \"$rank of $OMPI_COMM_WORLD_SIZE: $*\"");
  const Finished finished = run({"-n", "2", "--", "./program", "--set", "a=b c"});
  EXPECT_EQ(finished.exit, 0) << finished.err;
  EXPECT_EQ(sorted_lines(finished.out), (std::vector<std::string>{"0 of 2: --set a=b c", "1 of 2: --set a=b c"}));
  const auto said = lines_of(finished.err);
  ASSERT_EQ(said.size(), 1u) << finished.err;
  EXPECT_TRUE(said[0].starts_with("+ mpirun ")) << said[0];
  EXPECT_NE(said[0].find("--bind-to none"), std::string::npos);
  EXPECT_NE(said[0].find("odls_base_sigkill_timeout 0 "), std::string::npos);
  EXPECT_TRUE(said[0].ends_with(" -n 2 ./program --set a=b\\ c")) << said[0];
  EXPECT_NE(run({"--grace", "08", "-n", "1", "--", "./program"}).err.find("odls_base_sigkill_timeout 8 "),
            std::string::npos);
  // Without --grace, a process has 15 s to write its record before mpirun kills it.
  ProcessOptions options = launch_script({"-n", "1", "--", "./program"});
  const auto grace = std::ranges::find(options.command, "--grace");
  options.command.erase(grace, grace + 2);
  const Finished unsaid = Process(options).wait();
  EXPECT_NE(unsaid.err.find("odls_base_sigkill_timeout 15 "), std::string::npos) << unsaid.err;
}

TEST_F(LaunchScriptTest, ReturnsWhatTheRunSaysOfItsFailure) {
  DPTRAIN_NEEDS_MPI();
  write_program(
      "if [[ $rank == 0 ]]; then mkdir -p runs/e; printf '{\\n  \"v\": 1,\\n  \"exit\": 76,\\n  \"root\": {\"rank\": "
      "1}\\n}\\n' "
      "> runs/e/fault.json; fi\nexit 9\n");
  EXPECT_EQ(run({"-n", "1", "--", "./program", "--config", "configs/e.yaml"}).exit, 76);
  // By now the record is old, and not of this run.
  write_program("exit 9\n");
  EXPECT_EQ(run({"-n", "1", "--", "./program", "--config", "configs/e.yaml"}).exit, 9);
  EXPECT_EQ(run({"-n", "1", "--", "./program", "--config", "configs/e.yaml", "--out", "elsewhere"}).exit, 9);
}

TEST_F(LaunchScriptTest, AReaderOfItsOutputThatGoesAwayIsToldOf) {
  DPTRAIN_NEEDS_MPI();
  write_program("for i in {1..100}; do echo $i; sleep 0.1; done\n");
  const ProcessOptions options = launch_script({"-n", "2", "--", "./program"});
  Command command = {"/bin/bash", "-c", "\"$@\" | head -n 1; exit ${PIPESTATUS[0]}", "bash"};
  command.insert(command.end(), options.command.begin(), options.command.end());
  const Finished finished =
      Process({.command = command, .folder = options.folder, .timeout_s = 60, .out = {}, .err = {}}).wait();
  EXPECT_EQ(finished.exit, 74) << finished.err;
  EXPECT_EQ(finished.out, "1\n");
  EXPECT_NE(finished.err.find("launch: nobody reads the run's output any more"), std::string::npos) << finished.err;
}

/// Another job's run is in the directory and ends well, while this job is refused.
TEST_F(LaunchScriptTest, WhatAnotherJobSaysInTheSameFolderIsNotOfThisOne) {
  DPTRAIN_NEEDS_MPI();
  write_program(
      "mkdir -p runs/e; printf '{\"exit\": 0}\\n' > runs/e/summary.json\n"
      "printf '74\\nruns/e: another process is writing\\n' > \"$DPTRAIN_EXIT_FILE\"\nexit 74\n");
  EXPECT_EQ(run({"-n", "1", "--", "./program", "--config", "configs/e.yaml"}).exit, 74);
  EXPECT_EQ(run({"-n", "2", "--", "./program", "--config", "configs/e.yaml"}).exit, 74);
}

/// The other job's summary isn't this job's either. This job still prepares its data, and takes a while to stop.
TEST_F(LaunchScriptTest, TheEndOfAnotherJobInTheSameFolderIsNotThisOnes) {
  DPTRAIN_NEEDS_MPI();
  write_program(
      "trap 'sleep 4; echo stopped; echo 143 > \"$DPTRAIN_EXIT_FILE\"; exit 143' USR2\n"
      "mkdir -p runs/e; printf '{\"exit\": 0}\\n' > runs/e/summary.json; echo begun > begun\n"
      "for i in {1..600}; do sleep 0.1; done\n");
  Process process(launch_script({"--grace", "20", "-n", "1", "--", "./program", "--config", "configs/e.yaml"}));
  process.wait_until([&] { return !text("begun").empty(); });
  // Gives the script time to see the process.
  std::this_thread::sleep_for(std::chrono::seconds(2));
  process.signal(SIGTERM);
  EXPECT_EQ(process.wait().out, "stopped\n");
}

TEST_F(LaunchScriptTest, ServersOfWhatIsNoStoreAreToldOfByTheirFlag) {
  DPTRAIN_NEEDS_MPI();
  write_program("exit 78\n");
  const Command arguments = {"-n", "1", "-s", "1", "--", "./program", "--config", "configs/e.yaml"};
  const Finished finished = run(arguments);
  EXPECT_EQ(finished.exit, 78);
  EXPECT_NE(finished.err.find("launch: -s 1 sets strategy.servers, which only a kvstore between processes has"),
            std::string::npos)
      << finished.err;
}

TEST_F(LaunchScriptTest, AProgramThatIsNotThereIsToldOfBeforeMpirunIsStarted) {
  DPTRAIN_NEEDS_MPI();
  for (const Command& where : {Command{"-n", "2"}, {"-H", "localhost:2"}}) {
    Command options = where;
    options.insert(options.end(), {"--", "./progam", "--config", "a"});
    const Finished finished = run(options);
    EXPECT_EQ(finished.exit, 69);
    EXPECT_EQ(finished.err,
              "launch: there is no program './progam' here; write its path, for instance build/dptrain, or put it on "
              "PATH\n");
  }
}

/// mpirun's message about it is hidden among others, or missing. The script ends mpirun once dptrain has ended on the
/// other host.
TEST_F(LaunchScriptTest, AProgramThatIsNotOnAnotherHostIsToldOfWithTheHost) {
  DPTRAIN_NEEDS_MPI();
  const Hosts hosts(2);
  if (!hosts.absence().empty()) GTEST_SKIP() << hosts.absence();
  // dptrain ends like this if it is asked to stop while it joins.
  write_program("trap 'echo 143 > \"$DPTRAIN_EXIT_FILE\"; exit 143' TERM; sleep 30 & wait");
  // The folder of the program is empty on the second host.
  folder_.write("agent", "#!/usr/bin/env bash\n[[ $1 == 10.77.0.2 ]] || exec " + hosts.agent() +
                             " \"$@\"\nexec unshare --mount sh -c 'mount -t tmpfs none \"$0\" && exec \"$@\"' \"" +
                             folder_.path().string() + "\" " + hosts.agent() + " \"$@\"\n");
  std::filesystem::permissions(folder_.path() / "agent", std::filesystem::perms::owner_all);
  const std::string program = folder_.path() / "program";
  for (const char* where : {"10.77.0.1,10.77.0.2", "10.77.0.2"}) {
    SCOPED_TRACE(where);
    const Finished finished =
        Process(launch_script({"-H", where, "--agent", folder_.path() / "agent", "--", program}, hosts.on(1))).wait();
    EXPECT_EQ(finished.exit, 69) << finished.err;
    EXPECT_EQ(finished.last_error(), "launch: there is no program '" + program +
                                         "' on 10.77.0.2; write a path that all hosts have, or copy it there with "
                                         "--sync-dst-dir");
  }
}

TEST_F(LaunchScriptTest, AFileOfHostsThatIsNotThereAndNoRoomForItsOwnFilesAreToldOf) {
  EXPECT_EQ(run({"-H", "/nowhere/hosts", "--", "./program"}).last_error(),
            "launch: -H: there is no file '/nowhere/hosts'");
  DPTRAIN_NEEDS_MPI();
  write_program("true");
  ProcessOptions options = launch_script({"-n", "1", "--", "./program"});
  options.command.insert(options.command.begin() + 1, "TMPDIR=/nowhere");
  const Finished finished = Process(options).wait();
  EXPECT_EQ(finished.exit, 74);
  EXPECT_EQ(finished.last_error().find("launch: can't write a file in the folder for temporary files, /nowhere; "), 0u)
      << finished.err;
}

TEST_F(LaunchScriptTest, AProgramOfTheFolderNeedsNoPath) {
  DPTRAIN_NEEDS_MPI();
  write_program("echo \"$*\"");
  EXPECT_EQ(run({"-n", "1", "--", "program", "told"}).out, "told\n");
  // Arguments for mpirun are still passed on.
  EXPECT_EQ(run({"-n", "1", "--", "-x", "A=1", "./program", "told"}).out, "told\n");
}

/// A job of one process trains as without a job.
TEST_F(LaunchScriptTest, OneProcessTrainsAlone) {
  DPTRAIN_NEEDS_MPI();
  const Finished finished = run({"-n", "1", "--", dptrain_binary(), "--config", "lenet_1cpu", "--set", "epochs=1",
                                 "--set", "dataset.limit=64", "--set", "dataset.test_limit=10", "--out", "one"});
  EXPECT_EQ(finished.exit, 0) << finished.err;
  EXPECT_EQ(json::parse(text("one/summary.json"))["steps"], 1);
}

TEST_F(LaunchScriptTest, AHostThatCannotBeReachedIsSaidLast) {
  DPTRAIN_NEEDS_MPI();
  // ssh ends with 255, other agents with any code.
  for (const char* agent : {"exit 255\n", "exit 1\n", ""}) {
    SCOPED_TRACE(agent);
    write_program(agent);
    const std::string ssh = (folder_.path() / (*agent == '\0' ? "no_such_agent" : "program")).string();
    const Finished finished = run({"-H", "a,b", "--agent", ssh, "--", "./program"});
    EXPECT_EQ(finished.exit, 69) << finished.err;
    EXPECT_EQ(finished.last_error(), "launch: mpirun could not reach all of the hosts a b; check that '" + ssh +
                                         " HOST true' works for each, without a password");
  }
}

/// ssh hangs like this if a host accepts the connection and never answers; mpirun itself would wait forever.
TEST_F(LaunchScriptTest, AnAgentThatHangsIsGivenADeadline) {
  DPTRAIN_NEEDS_MPI();
  write_program("echo $$ >> hangs\nsleep 100\n");
  const std::string ssh = (folder_.path() / "program").string();
  ::setenv("DPTRAIN_JOIN_TIMEOUT", "1", 1);
  const auto begun = Clock::now();
  const Finished finished = run({"-H", "a,b", "--agent", ssh, "--", "./program"});
  ::unsetenv("DPTRAIN_JOIN_TIMEOUT");
  EXPECT_EQ(finished.exit, 69) << finished.err;
  EXPECT_LT(seconds_since(begun), 1 + 15 + 3 + kSlack_s);
  EXPECT_EQ(finished.last_error(), "launch: mpirun could not reach all of the hosts a b within 16 s; check that '" +
                                       ssh + " HOST true' works for each, without a password");
  for (const std::string& pid : lines_of(text("hangs"))) EXPECT_FALSE(is_running(std::stoi(pid)));
}

/// By itself mpirun would sleep for twice the grace time on each host, one after the other.
TEST_F(LaunchScriptTest, AMistakeReturnsLongBeforeTheGraceTime) {
  DPTRAIN_NEEDS_MPI();
  const Hosts hosts(2);
  if (!hosts.absence().empty()) GTEST_SKIP() << hosts.absence();
  const auto launched = [&](const Command& program) {
    Command options = {"--grace", "20", "-H", "10.77.0.1,10.77.0.2", "--agent", hosts.agent(), "--"};
    options.insert(options.end(), program.begin(), program.end());
    const auto begin = std::chrono::steady_clock::now();
    const Finished finished = Process(launch_script(options, hosts.on(1))).wait();
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20)) << finished.err;
    return finished;
  };
  // One process hasn't joined its job yet, and one has.
  const Finished usage = launched({dptrain_binary(), "--confg", "lenet_1cpu"});
  EXPECT_EQ(usage.exit, 64) << usage.err;
  EXPECT_EQ(usage.last_error(),
            "launch: the job ended with exit code 64: '--confg' is not an argument of dptrain train; did you mean "
            "'--config'?");
  const Finished absent = launched({dptrain_binary(), "--config", "absent.yaml"});
  EXPECT_EQ(absent.exit, 66) << absent.err;
  // The words are those of the host that reported it first.
  EXPECT_TRUE(absent.last_error().starts_with("launch: the job ended with exit code 66: ")) << absent.err;
  EXPECT_NE(absent.last_error().find("absent.yaml: no such configuration"), std::string::npos) << absent.err;
}

/// A stopped process, or one that hangs in a device, stays like this: mpirun must kill it.
TEST_F(LaunchScriptTest, AProcessThatStaysIsWaitedForAndKilled) {
  DPTRAIN_NEEDS_MPI();
  write_program(
      "if [[ $rank == 0 ]]; then printf '75\\na peer was lost\\n' > \"$DPTRAIN_EXIT_FILE\"; sleep 1; exit 75; fi\n"
      "echo $$ > stays; trap '' TERM; for i in {1..600}; do sleep 0.1; done\n");
  Command options = {"--grace", "2", "-n", "2", "--", "./program"};
  const Finished finished = run(options);
  EXPECT_EQ(finished.exit, 75) << finished.err;
  EXPECT_EQ(finished.last_error(), "launch: the job ended with exit code 75: a peer was lost");
  EXPECT_FALSE(is_running(std::stoi(text("stays"))));
}

/// After the training run has ended, nothing else would end a stopped process.
TEST_F(LaunchScriptTest, SoIsOneThatStaysBehindAtTheEnd) {
  DPTRAIN_NEEDS_MPI();
  write_program(
      "mkdir -p runs/e\necho \"$PWD/runs/e\" > \"$DPTRAIN_RUN_FILE\"\n"
      "if [[ $rank == 0 ]]; then printf '{\\n  \"exit\": 0\\n}\\n' > runs/e/summary.json; exit 0; fi\n"
      "echo $$ > stays; kill -STOP $$\n");
  ::setenv("DPTRAIN_JOIN_TIMEOUT", "1", 1);
  const Finished finished = run({"-n", "2", "--", "./program", "--config", "configs/e.yaml"});
  ::unsetenv("DPTRAIN_JOIN_TIMEOUT");
  EXPECT_EQ(finished.exit, 0) << finished.err;
  EXPECT_NE(finished.err.find("launch: mpirun hangs; it is killed, with the processes that it has left on this host"),
            std::string::npos);
  EXPECT_FALSE(is_running(std::stoi(text("stays"))));
}

/// The script starts a program that notes its arguments in "calls", and names its run's folder by `$begin`. The calls
/// tell how often it was started.
class RestartTest : public LaunchScriptTest {
 protected:
  void SetUp() override { DPTRAIN_NEEDS_MPI(); }

  /// `body` sees the number of this start as `$start`. A start that reaches the end of `body` has trained.
  void write_run(const std::string& body) const {
    write_program(
        "echo \"$*\" >> calls\nstart=$(wc -l < calls)\nmkdir -p e\n"
        "begin() { echo \"$PWD/e\" > \"$DPTRAIN_RUN_FILE\"; }\n"
        "lose() { printf '75\\na peer was lost\\n' > \"$DPTRAIN_EXIT_FILE\"; exit 75; }\n" +
        body);
  }
  Finished run_again(const std::string& restarts, const Command& arguments) const {
    std::filesystem::remove(folder_.path() / "calls");
    Command options = {"-n", "1", "--max-restarts", restarts, "--", "./program"};
    options.insert(options.end(), arguments.begin(), arguments.end());
    return run(options);
  }
  std::vector<std::string> calls() const { return lines_of(text("calls")); }
};

TEST_F(RestartTest, GoesOnWhereTheRunWasWhenAProcessIsLost) {
  write_run(
      "((start < 3)) || exit 0\nbegin\necho '{\"exit\": 75}' > e/fault.json\n"
      "((start < 2)) || { mkdir -p e/checkpoints/step-1; touch e/checkpoints/step-1/manifest.json; }\nexit 9\n");
  const Command arguments = {"--config", "x", "--resume", "other"};
  const Finished finished = run_again("5", arguments);
  EXPECT_EQ(finished.exit, 0) << finished.err;
  EXPECT_NE(finished.err.find("launch: a process was lost; starting again in 3 s, restart 2 of 5\n"), std::string::npos)
      << finished.err;
  // As long as the run has no checkpoint of its own, a restart begins as the first start did, and overwrites the run.
  EXPECT_EQ(calls(), (std::vector<std::string>{"--config x --resume other", "--config x --resume other --overwrite",
                                               "--config x --resume"}));

  std::filesystem::remove_all(folder_.path() / "e");
  EXPECT_EQ(run_again("1", arguments).exit, 75);
  EXPECT_EQ(calls().size(), 2u);
}

/// Here the directory contains an earlier run, which the command was to replace.
TEST_F(RestartTest, ARunThatHadNotBegunIsStartedAsItWas) {
  std::filesystem::create_directories(folder_.path() / "e/checkpoints/step-9");
  folder_.write("e/config.yaml", "of an earlier run");
  folder_.write("e/checkpoints/step-9/manifest.json", "of an earlier run");
  write_run("((start > 1)) || lose\n((start > 2)) || { begin; rm -r e/checkpoints; lose; }\n");
  const Finished finished = run_again("5", {"--out", "e", "--overwrite"});
  EXPECT_EQ(finished.exit, 0) << finished.err;
  EXPECT_EQ(calls(), (std::vector<std::string>{"--out e --overwrite", "--out e --overwrite", "--out e --resume"}));
}

TEST_F(RestartTest, ARunOfWhichAllWereKilledIsStartedAgainOnceItHasBegun) {
  write_run("((start == 1)) || exit 0\nbegin\nkill -KILL $$\n");
  EXPECT_EQ(run_again("1", {}).exit, 0);
  EXPECT_EQ(calls(), (std::vector<std::string>{"", "--resume"}));
  write_run("kill -KILL $$\n");
  EXPECT_EQ(run_again("1", {}).exit, 137);
  EXPECT_EQ(calls().size(), 1u);
}

/// The processes need a moment to notice it and to report their end.
TEST_F(RestartTest, SoIsOneWhoseMpirunWasKilled) {
  write_run("((start == 1)) || exit 0\nbegin\nkill -KILL $PPID\nsleep 1\nlose\n");
  const Finished finished = run_again("1", {});
  EXPECT_EQ(finished.exit, 0) << finished.err;
  EXPECT_NE(finished.err.find("launch: the job ended with exit code 75: a peer was lost\n"), std::string::npos)
      << finished.err;
  EXPECT_EQ(calls(), (std::vector<std::string>{"", "--resume"}));
}

/// When mpirun has lost a process, it asks the others to stop, and these report that they did.
TEST_F(RestartTest, AStopThatNobodyHasAskedForIsALoss) {
  const auto started_after = [this](const std::string& end_of_second) {
    write_run("begin\nif ((start == 1)); then\n  printf '143\\nstopped by SIGTERM\\n' > \"$DPTRAIN_EXIT_FILE\"; " +
              end_of_second + "\nfi\n");
    run_again("1", {});
    return calls().size();
  };
  EXPECT_EQ(started_after("kill -KILL $$"), 2u);
  EXPECT_EQ(started_after("exit 143"), 1u) << "somebody has asked the processes themselves";
}

TEST_F(RestartTest, AHostThatIsNotBackYetCostsATry) {
  const std::string absent = "printf '69\\nnot all joined\\n' > \"$DPTRAIN_EXIT_FILE\"; exit 69\n";
  write_run("((start > 1)) || { begin; lose; }\n((start > 2)) || { " + absent + "}\n");
  const Finished finished = run_again("2", {});
  EXPECT_EQ(finished.exit, 0) << finished.err;
  EXPECT_EQ(calls(), (std::vector<std::string>{"", "--resume", "--resume"}));
  // If the first start already fails like this, it is a mistake.
  write_run(absent);
  EXPECT_EQ(run_again("2", {}).exit, 69);
  EXPECT_EQ(calls().size(), 1u);
}

TEST_F(RestartTest, ASignalInThePauseEndsIt) {
  write_run("begin\nlose\n");
  ProcessOptions options = launch_script({"-n", "1", "--max-restarts", "5", "--", "./program"});
  options.err = (folder_.path() / "err").string();
  Process process(options);
  process.wait_until([&] { return text("err").find("starting again in 3 s") != std::string::npos; });
  process.signal(SIGTERM);
  EXPECT_EQ(process.wait().exit, 143);
  EXPECT_EQ(calls().size(), 1u);
}

TEST_F(LaunchScriptTest, ASignalReachesAllProcessesAndTheirEndIsReturned) {
  DPTRAIN_NEEDS_MPI();
  write_program(
      "trap 'sleep 0.2; mkdir -p e; [[ $rank != 0 ]] || echo \"{\\\"exit\\\": 143, }\" > e/summary.json; echo saved; "
      "sleep 0.2; exit 143' "
      "USR2\necho \"$PWD/e\" > \"$DPTRAIN_RUN_FILE\"; echo begun > begun.$rank\nfor i in {1..600}; do sleep 0.1; "
      "done\n");
  Process process(launch_script({"-n", "2", "--grace", "2", "--max-restarts", "3", "--", "./program", "--out", "e"}));
  process.wait_until([&] { return !text("begun.0").empty() && !text("begun.1").empty(); });
  process.signal(SIGTERM);
  const Finished finished = process.wait();
  EXPECT_EQ(finished.exit, 143) << finished.err;
  EXPECT_EQ(finished.out, "saved\nsaved\n");
}

/// A program that runs the script may pass on a signal that it got itself.
TEST_F(LaunchScriptTest, ACopyOfASignalIsNoSecondOne) {
  DPTRAIN_NEEDS_MPI();
  write_program(
      "trap 'sleep 3; mkdir -p e; echo \"{\\\"exit\\\": 143, }\" > e/summary.json; echo saved; exit 143' USR2\n"
      "echo \"$PWD/e\" > \"$DPTRAIN_RUN_FILE\"; echo begun > begun\nfor i in {1..600}; do sleep 0.1; done\n");
  Process process(launch_script({"-n", "1", "--grace", "10", "--", "./program", "--out", "e"}));
  process.wait_until([&] { return !text("begun").empty(); });
  process.signal(SIGTERM);
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  process.signal(SIGTERM);
  const Finished finished = process.wait();
  EXPECT_EQ(finished.exit, 143) << finished.err;
  EXPECT_EQ(finished.out, "saved\n") << finished.err;
}

TEST_F(LaunchScriptTest, CopiesTheFolderToEveryHostAndWorksThere) {
  DPTRAIN_NEEDS_MPI();
  const std::string absence = absent_of_hosts(std::filesystem::exists("/usr/bin/rsync") ? "" : "there is no rsync");
  if (!absence.empty()) GTEST_SKIP() << absence;
  const Hosts hosts(2);
  if (!hosts.absence().empty()) GTEST_SKIP() << hosts.absence();
  write_program("echo \"$rank $(hostname) $PWD $DPTRAIN_TEST $(cat data)\"");
  folder_.write("data", "here");
  const ScratchFolder there;
  const std::string place = there.path() / "work here";
  ::setenv("DPTRAIN_TEST", "told", 1);
  const Finished finished =
      Process(launch_script({"-H", "10.77.0.1,10.77.0.2", "--agent", hosts.agent(), "--sync-dst-dir", place, "-n", "3",
                             "--max-restarts", "1", "--", place + "/program"},
                            hosts.on(1)))
          .wait();
  ::unsetenv("DPTRAIN_TEST");
  EXPECT_EQ(finished.exit, 0) << finished.err;
  EXPECT_EQ(sorted_lines(finished.out),
            (std::vector<std::string>{"0 host1 " + place + " told here", "1 host1 " + place + " told here",
                                      "2 host2 " + place + " told here"}));
  const auto said = lines_of(finished.err);
  // mpirun may print more, for example that it set an agent's process group.
  ASSERT_GE(said.size(), 4u) << finished.err;
  EXPECT_TRUE(said[0].starts_with("+ rsync ")) << said[0];
  EXPECT_TRUE(said[1].ends_with(" 10.77.0.2:" + (there.path() / "work\\ here/").string())) << said[1];
  EXPECT_TRUE(said[2].starts_with("launch: --max-restarts continues from a checkpoint that every host must see"))
      << said[2];
  EXPECT_TRUE(said[3].starts_with("+ mpirun ")) << said[3];
}

TEST_F(LaunchScriptTest, ReadsAFileOfHostsWithSlotsAndComments) {
  DPTRAIN_NEEDS_MPI();
  const Hosts hosts(3);
  if (!hosts.absence().empty()) GTEST_SKIP() << hosts.absence();
  write_program("echo \"$rank $(hostname)\"");
  folder_.write(
      "hosts",
      "# of the test\n\n10.77.0.1 slots=2  # two of them\n   \n\t10.77.0.3\tslots = 1\r\n10.77.0.2 max-slots=9");
  const auto launched = [&](const Command& more) {
    Command options = {"-H", "hosts", "--agent", hosts.agent()};
    options.insert(options.end(), more.begin(), more.end());
    options.insert(options.end(), {"--", "./program"});
    Finished finished = Process(launch_script(options, hosts.on(1))).wait();
    EXPECT_EQ(finished.exit, 0) << finished.err;
    return finished;
  };
  const Finished plain = launched({});
  EXPECT_EQ(sorted_lines(plain.out), (std::vector<std::string>{"0 host1", "1 host1", "2 host3", "3 host2"}));
  EXPECT_NE(plain.err.find(" -H 10.77.0.1:2\\,10.77.0.3:1\\,10.77.0.2:1 "), std::string::npos) << plain.err;
  // Hosts without slots get the remaining processes.
  EXPECT_EQ(sorted_lines(launched({"-n", "5"}).out),
            (std::vector<std::string>{"0 host1", "1 host1", "2 host3", "3 host2", "4 host2"}));
}

TEST_F(LaunchScriptTest, RefusesAFileOfHostsThatItCannotRead) {
  const auto refused = [this](const std::string& text) {
    folder_.write("hosts", text);
    const Finished finished = run({"-H", "hosts", "--", "./program"});
    EXPECT_EQ(finished.exit, 64) << finished.err;
    return finished.last_error();
  };
  EXPECT_EQ(refused("# none\n\n"), "launch: -H hosts names no host");
  EXPECT_EQ(refused("a slots=none\n"), "launch: -H: expected a host, or host:processes, got 'a:none'");
  EXPECT_EQ(refused("a slots=0\n"), "launch: -H: expected a host, or host:processes, got 'a:0'");
  EXPECT_EQ(refused("me@a slots=2\n"),
            "launch: -H: expected a host without a user's name, got 'me@a:2'; set User for the host in ~/.ssh/config");
  EXPECT_EQ(refused("ok slots=2\na; rm -r b\n"), "launch: -H: expected a host, or host:processes, got 'a; rm -r b'");
  EXPECT_EQ(refused("a b\n"), "launch: -H: expected a host, or host:processes, got 'a b'");
}

}  // namespace
}  // namespace dptrain::testing
