// Stages of a pipeline in two processes, one of which is killed or stopped. The other one waits for messages that don't
// come; it ends in time and reports the loss, and the run can be resumed.
#include <fmt/format.h>

#include "processes/watched_training.h"

namespace dptrain::testing {
namespace {

struct PipelineFault {
  std::string name;
  std::string strategy;
  int devices = 1;     ///< per process
  size_t process = 0;  ///< the process that is killed or stopped
};

void PrintTo(const PipelineFault& fault, std::ostream* out) { *out << fault.name; }

class PipelineFaultTest : public WatchdogTest, public ::testing::WithParamInterface<PipelineFault> {
 protected:
  Command pipeline(const std::string& name, int devices) const {
    Command command = program(name, devices);
    command.insert(command.end(), {"--set", "strategy=" + GetParam().strategy});
    return command;
  }
  /// Expects that a signal to the process ends the other one, and that the run resumes from its checkpoint.
  void expect_ends_and_goes_on(int signal, double seen_within_s, const std::string& word) const {
    const size_t process = GetParam().process, survivor = 1 - process;
    LaunchOptions options = job(/*grace_s=*/1);
    options.processes = std::vector<Command>(2, pipeline("run", GetParam().devices));
    Launch launch(options);
    wait_until_trained(launch.launcher());
    const std::string who = fmt::format("process {} (host {}, pid {}, rank", process, host_name(), launch.pid(process));
    ::kill(launch.pid(process), signal);
    launch.wait_for_ends({survivor}, seen_within_s + kSlack_s);
    const Launched launched = launch.wait();
    EXPECT_FALSE(is_running(launch.pid(process)));
    const json fault = expect_lost(launched.processes[survivor], survivor, {who, word});
    // WatchdogTest holds the promise itself. Here two pipelines have begun beside other tests, which may take the
    // cores.
    EXPECT_LT(fault.value("detected_s", 1e9), seen_within_s + kSlack_s);
    const Finished resumed = alone({"/usr/bin/env", "OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1",
                                    "/bin/sh", "-c", fault.value("resume", "false")});
    EXPECT_EQ(resumed.exit, 0) << resumed.err;
    const Finished whole = alone(pipeline("whole", 2 * GetParam().devices));
    EXPECT_EQ(whole.exit, 0) << whole.err;
    EXPECT_EQ(hash("run"), hash("whole"));
  }
};

TEST_P(PipelineFaultTest, AProcessThatIsKilledEndsTheOtherAndTheTrainingGoesOn) {
  expect_ends_and_goes_on(SIGKILL, kDeathSeen_s, " has died; it was last heard from ");
}

TEST_P(PipelineFaultTest, AProcessThatIsStoppedEndsTheOtherAndTheTrainingGoesOn) {
  expect_ends_and_goes_on(SIGSTOP, kSilenceSeen_s, " was silent for ");
}

INSTANTIATE_TEST_SUITE_P(Stages, PipelineFaultTest,
                         ::testing::Values(PipelineFault{"first_stage", kLenetStages, 1, 0},
                                           PipelineFault{"last_stage", kLenetStages, 1, 1},
                                           PipelineFault{"one_of_two_pipelines", kLenetReplicas, 2, 1}),
                         [](const auto& fault) { return fault.param.name; });

}  // namespace
}  // namespace dptrain::testing
