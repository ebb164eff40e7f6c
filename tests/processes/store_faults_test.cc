// Runs with a key-value store on separate servers, where a worker, a server or the scheduler is killed or asked to
// stop. All others end in time with the same message, and the run can be resumed.
#include <fmt/format.h>

#include "processes/watched_training.h"
#include "support/json_schema.h"

namespace dptrain::testing {
namespace {

/// Processes 0 and 1 train, 2 is the scheduler, and the later ones are servers. With 0 servers, the first two processes
/// also serve.
struct StoreFault {
  std::string type;
  size_t servers = 1;
  size_t process = 0;  ///< the process that the fault happens to

  size_t processes() const { return servers == 0 ? 2 : 3 + servers; }
};

void PrintTo(const StoreFault& fault, std::ostream* out) {
  *out << fault.type << ", " << fault.servers << ", process " << fault.process;
}

class StoreFaultTest : public WatchdogTest, public ::testing::WithParamInterface<StoreFault> {
 protected:
  LaunchOptions stored_job() const {
    LaunchOptions options = job(/*grace_s=*/3);
    Command command = program("run", 1, "100000");
    const StoreFault& fault = GetParam();
    command.insert(command.end(), {"--set", fmt::format("strategy={{name: kvstore, type: {}, servers: {}}}", fault.type,
                                                        fault.servers)});
    options.processes = std::vector<Command>(fault.processes(), command);
    return options;
  }
  static std::string role(size_t process) {
    if (process < 2) return fmt::format("rank {}", process);
    return process == 2 ? "the scheduler" : fmt::format("server {}", process - 3);
  }
  /// The record of a survivor, whatever its role.
  json fault_of(size_t process) const {
    const std::string name = process == 0  ? "fault.json"
                             : process < 2 ? fmt::format("fault-{}.json", process)
                                           : fmt::format("fault-process-{}.json", process);
    json fault = json::parse(text_of(run("run") / name), nullptr, false);
    EXPECT_TRUE(fault.is_object()) << name;
    EXPECT_EQ(schema_violations("fault.schema.json", fault), std::vector<std::string>()) << fault;
    return fault;
  }
  /// All processes except the one that the fault happens to.
  static std::vector<size_t> survivors() {
    std::vector<size_t> others;
    for (size_t i = 0; i < GetParam().processes(); ++i)
      if (i != GetParam().process) others.push_back(i);
    return others;
  }
  /// Expects the survivors to have ended with the same message and the same record. Returns the first one's record.
  json expect_same_end(const Launched& launched) const {
    json first;
    for (const size_t survivor : survivors()) {
      const Finished& process = launched.processes[survivor];
      EXPECT_EQ(process.exit, 75) << process.err;
      EXPECT_EQ(process.last_error(), launched.processes[survivors()[0]].last_error());
      const json fault = fault_of(survivor);
      if (!fault.is_object()) continue;
      EXPECT_EQ(fault["rank"], survivor < 2 ? json(survivor) : json()) << survivor;
      if (first.is_null()) first = fault;
      for (const char* key : {"root", "last_checkpoint", "steps_lost", "resume"})
        EXPECT_EQ(fault[key], first[key]) << key;
    }
    return first;
  }
  /// The step of the newest complete checkpoint.
  int64_t newest_step() const {
    int64_t newest = 0;
    for (const auto& entry : std::filesystem::directory_iterator(run("run") / "checkpoints")) {
      const std::string name = entry.path().filename();
      if (name.starts_with("step-") && name.size() == 11)
        newest = std::max<int64_t>(newest, std::stoll(name.substr(5)));
    }
    return newest;
  }
  /// The hash that `dptrain hash` prints.
  std::string hash_of(const std::string& name) const {
    const Finished hash = alone({dptrain_binary(), "hash", run(name).string()});
    EXPECT_EQ(hash.exit, 0) << hash.err;
    EXPECT_EQ(hash.out.size(), 65u) << hash.out;
    return hash.out;
  }
  /// The hash of an uninterrupted run with the same settings and this number of steps ("steps=30").
  std::string hash_of_uninterrupted(const std::string& steps) const {
    LaunchOptions options = stored_job();
    for (Command& command : options.processes) {
      std::ranges::replace(command, std::string("steps=100000"), steps);
      std::ranges::replace(command, run("run").string(), run("whole").string());
    }
    for (const Finished& process : Launch(options).wait().processes) EXPECT_EQ(process.exit, 0) << process.err;
    return hash_of("whole");
  }
  /// The name of a process in messages: "process 3 (host h, pid 77, server 0)".
  static std::string place(size_t process, pid_t pid) {
    return fmt::format("process {} (host {}, pid {}, {})", process, host_name(), pid, role(process));
  }
};

class KilledInStoreTest : public StoreFaultTest {};

TEST_P(KilledInStoreTest, EndsAllOthersInTheSameWordsAndTheTrainingGoesOn) {
  const size_t killed = GetParam().process;
  const LaunchOptions options = stored_job();
  Launch launch(options);
  wait_until_trained(launch.launcher());
  const pid_t pid = launch.pid(killed);
  ::kill(pid, SIGKILL);
  launch.wait_for_ends(survivors(), kDeath_s);
  const json first = expect_same_end(launch.wait());
  ASSERT_TRUE(first.is_object());
  EXPECT_TRUE(first["root"]["cause"].get<std::string>().starts_with(place(killed, pid) + " has died")) << first;
  EXPECT_LT(first["detected_s"], kDeathSeen_s);
  EXPECT_EQ(first["root"]["rank"], killed < 2 ? json(killed) : json());
  EXPECT_EQ(first["root"]["pid"], pid);
  EXPECT_GE(first["root"]["step"], 1) << "as of its last heartbeat";
  ASSERT_TRUE(first["last_checkpoint"].is_object()) << first;
  EXPECT_GE(first["last_checkpoint"]["step"], 20);

  Command resumed = {"/usr/bin/env", "OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1", "/bin/sh", "-c"};
  // All remaining steps would take too long.
  std::string command = first["resume"];
  const std::string steps = "steps=100000";
  // The killed process may have written a later checkpoint than the others know of.
  const std::string few = fmt::format("steps={}", newest_step() + 10);
  for (size_t at = command.find(steps); at != std::string::npos; at = command.find(steps, at))
    command.replace(at, steps.size(), few);
  resumed.push_back(command);
  const Finished finished = alone(resumed);
  EXPECT_EQ(finished.exit, 0) << finished.err;
  if (GetParam().type == "dist_sync") {
    EXPECT_EQ(hash_of("run"), hash_of_uninterrupted(few)) << few;
  }
  for (size_t i = 0; i < options.processes.size(); ++i)
    EXPECT_FALSE(std::filesystem::exists(run("run") / fmt::format("fault-process-{}.json", i))) << i;
}

INSTANTIATE_TEST_SUITE_P(
    Roles, KilledInStoreTest,
    ::testing::Values(StoreFault{"dist_sync", 1, 0}, StoreFault{"dist_sync", 1, 1}, StoreFault{"dist_sync", 1, 2},
                      StoreFault{"dist_sync", 2, 3}, StoreFault{"dist_sync", 0, 1}, StoreFault{"dist_async", 1, 0},
                      StoreFault{"dist_async", 1, 2}, StoreFault{"dist_async", 2, 4}, StoreFault{"dist_async", 0, 1}),
    [](const ::testing::TestParamInfo<StoreFault>& fault) {
      return fmt::format("{}_{}_servers_process_{}", fault.param.type, fault.param.servers, fault.param.process);
    });

/// Only its silence shows that a process is stopped.
class SilentInStoreTest : public StoreFaultTest {};

TEST_P(SilentInStoreTest, EndsAllOthersInTheSameWordsAndIsGoneWithTheJob) {
  const size_t stopped = GetParam().process;
  Launch launch(stored_job());
  wait_until_trained(launch.launcher());
  const pid_t pid = launch.pid(stopped);
  ::kill(pid, SIGSTOP);
  launch.wait_for_ends(survivors(), kSilence_s);
  const Launched launched = launch.wait();
  EXPECT_FALSE(is_running(pid)) << "mpirun ends it with the job";
  const json first = expect_same_end(launched);
  ASSERT_TRUE(first.is_object());
  EXPECT_TRUE(first["root"]["cause"].get<std::string>().starts_with(place(stopped, pid) + " was silent for ")) << first;
  EXPECT_EQ(first["root"]["pid"], pid);
  EXPECT_LT(first["detected_s"], kSilenceSeen_s);
}

INSTANTIATE_TEST_SUITE_P(Roles, SilentInStoreTest,
                         ::testing::Values(StoreFault{"dist_sync", 1, 1}, StoreFault{"dist_sync", 1, 2},
                                           StoreFault{"dist_sync", 2, 3}, StoreFault{"dist_async", 1, 0},
                                           StoreFault{"dist_async", 0, 1}, StoreFault{"dist_async", 1, 2},
                                           StoreFault{"dist_async", 2, 4}),
                         [](const ::testing::TestParamInfo<StoreFault>& fault) {
                           return fmt::format("{}_{}_servers_process_{}", fault.param.type, fault.param.servers,
                                              fault.param.process);
                         });

class StoppedStoreTest : public StoreFaultTest {};

TEST_P(StoppedStoreTest, WhoeverIsSentSigtermAllStopWithACheckpoint) {
  const LaunchOptions options = stored_job();
  Launch launch(options);
  wait_until_trained(launch.launcher());
  ASSERT_EQ(::kill(launch.pid(GetParam().process), SIGTERM), 0);
  const Launched launched = launch.wait();
  const json summary = json::parse(text_of(run("run") / "summary.json"), nullptr, false);
  ASSERT_TRUE(summary.is_object()) << launched.processes[0].err;
  EXPECT_EQ(summary["exit"], 143);
  const std::string sentence =
      fmt::format("dptrain: stopped by SIGTERM after step {}; the weights are in ", summary["steps"].get<int64_t>());
  for (const Finished& process : launched.processes) {
    EXPECT_EQ(process.exit, 143) << process.err;
    EXPECT_TRUE(process.last_error().starts_with(sentence)) << process.err;
  }
  for (const auto& entry : std::filesystem::directory_iterator(run("run")))
    EXPECT_FALSE(entry.path().filename().string().starts_with("fault")) << entry.path();
}

INSTANTIATE_TEST_SUITE_P(Roles, StoppedStoreTest,
                         ::testing::Values(StoreFault{"dist_sync", 1, 1}, StoreFault{"dist_sync", 1, 2},
                                           StoreFault{"dist_sync", 1, 3}, StoreFault{"dist_async", 1, 2},
                                           StoreFault{"dist_async", 1, 3}),
                         [](const ::testing::TestParamInfo<StoreFault>& fault) {
                           return fmt::format("{}_process_{}", fault.param.type, fault.param.process);
                         });

/// A loss that isn't finite is reported in its step, not at the end of the epoch as other losses are.
TEST_F(WatchdogTest, AnAsynchronousWorkerThatDivergesEndsAllSoon) {
  LaunchOptions options = job(/*grace_s=*/2);
  for (Command& command : options.processes)
    for (const char* setting : {"strategy={name: kvstore, type: dist_async}", "learning_rate=1e30", "batch_size=2",
                                "dataset.limit=10000", "checkpoint={every_epochs: 1}"})
      command.insert(command.end(), {"--set", setting});
  const Launched launched = Launch(options).wait();
  for (const Finished& process : launched.processes) {
    EXPECT_EQ(process.exit, 79) << process.err;
    EXPECT_EQ(process.last_error(), launched.processes[0].last_error());
  }
  const json fault = json::parse(text_of(run("run") / "fault.json"), nullptr, false);
  ASSERT_TRUE(fault.is_object());
  EXPECT_EQ(fault["root"]["kind"], "diverged");
  EXPECT_LE(fault["root"]["step"], 20);
}

}  // namespace
}  // namespace dptrain::testing
