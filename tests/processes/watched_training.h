#pragma once

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <chrono>

#include "processes/job_training.h"
#include "support/json_schema.h"

namespace dptrain::testing {

using Clock = std::chrono::steady_clock;

/// What is promised, which fault.json has as `detected_s`: from the last sign of life of a process on until another one
/// knows that it has died on its own host, or is silent.
inline constexpr double kDeathSeen_s = 1, kSilenceSeen_s = 10;
/// What a busy machine may add to that until all have ended.
inline constexpr double kSlack_s = 3;
inline constexpr double kDeath_s = kDeathSeen_s + kSlack_s;
inline constexpr double kSilence_s = kSilenceSeen_s + kSlack_s;

inline double seconds_since(Clock::time_point begun) {
  return std::chrono::duration<double>(Clock::now() - begun).count();
}

/// Whether a process is there, other than as what its parent has still to hear of.
inline bool is_running(pid_t pid) {
  const std::string stat = text_of(fmt::format("/proc/{}/stat", pid));
  const size_t state = stat.rfind(')') + 2;
  return state < stat.size() && stat[state] != 'Z' && stat[state] != 'X';
}

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
    const Finished finished = alone({dptrain_binary(), "hash", run(name).string()});
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
    for (const char* file : {"fault.json", "fault-1.json", "fault-process-2.json", "fault-process-3.json"})
      EXPECT_FALSE(std::filesystem::exists(run("run") / file)) << file;
    expect_bits_of_one_process();
  }
};

}  // namespace dptrain::testing
