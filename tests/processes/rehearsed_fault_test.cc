// `--fault` in a run of several processes: a rehearsed fault has the effects of a real one.
#include "processes/launched_training.h"

namespace dptrain::testing {
namespace {

class RehearsedFaultTest : public LaunchedTrainingTest {
 protected:
  LaunchOptions job_with(const std::string& fault, const Command& more = {}) const {
    LaunchOptions options = job();
    for (Command& process : options.processes) {
      process.insert(process.end(), {"--fault", fault});
      process.insert(process.end(), more.begin(), more.end());
    }
    return options;
  }
};

TEST_F(RehearsedFaultTest, AKilledProcessIsLostAndTheCommandThatGoesOnKillsNone) {
  Launch launch(job_with("kill:rank=1,step=50"));
  const Launched launched = launch.wait();
  EXPECT_NE(launched.processes[0].err.find("--fault rehearses a fault: rank 1 (cpu:0 on " + host_name() +
                                           ") is killed before step 50\n"),
            std::string::npos)
      << launched.processes[0].err;
  const json fault = expect_lost(launched.processes[0], 0, {"process 1 ", " has died; it was last heard from "});
  EXPECT_LT(fault["detected_s"], kDeathSeen_s);
  EXPECT_EQ(fault["last_checkpoint"]["step"], 40);
  EXPECT_EQ(fault["resume"].get<std::string>().find("--fault"), std::string::npos) << fault["resume"];
  expect_resumes(fault);
}

TEST_F(RehearsedFaultTest, ARestartGoesOnWithoutIt) {
  for (const Command& fault : {Command{"--fault", "kill:rank=0,step=50"}, {"--fault=kill:rank=1,step=30"}}) {
    Command training = program("run", 1);
    training.insert(training.end(), fault.begin(), fault.end());
    training.emplace_back("--overwrite");
    const Finished finished = Process(script({"-n", "2", "--grace", "1", "--max-restarts", "1"}, {}, training)).wait();
    EXPECT_EQ(finished.exit, 0) << finished.err;
    EXPECT_NE(finished.err.find("launch: a process was lost; starting again in 3 s, restart 1 of 1"), std::string::npos)
        << finished.err;
  }
  expect_bits_of_one_process();
}

TEST_F(RehearsedFaultTest, AHungRankIsNamedByTheDeadline) {
  Launch launch(job_with("hang:rank=1,step=50", {"--set", "timeout_s=2"}));
  const Launched launched = launch.wait();
  const json fault =
      expect_lost(launched.processes[0], 0, {"rank 1 of process 1 ", " made no progress for ", " s, in step 50; "});
  EXPECT_EQ(fault["root"]["step"], 50);
  EXPECT_EQ(launched.processes[1].last_error(), launched.processes[0].last_error());
  expect_resumes(fault);
}

TEST_F(RehearsedFaultTest, ProcessesThatAreToldOfOtherFaultsDoNotBegin) {
  LaunchOptions options = job();
  options.processes[1].insert(options.processes[1].end(), {"--fault", "slow:rank=1,ms=5"});
  const Launched launched = Launch(options).wait();
  for (const Finished& process : launched.processes) {
    EXPECT_EQ(process.exit, 76) << process.err;
    EXPECT_NE(process.err.find("--fault"), std::string::npos) << process.err;
  }
}

}  // namespace
}  // namespace dptrain::testing
