#include "processes/watched_training.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>

#include "support/json_schema.h"

namespace dptrain::testing {

double seconds_since(Clock::time_point begun) { return std::chrono::duration<double>(Clock::now() - begun).count(); }

bool is_running(pid_t pid) {
  const std::string stat = text_of(fmt::format("/proc/{}/stat", pid));
  const size_t state = stat.rfind(')') + 2;
  return state < stat.size() && stat[state] != 'Z' && stat[state] != 'X';
}

Command WatchdogTest::program(const std::string& name, int devices, const std::string& steps) const {
  return training(name, "lenet_ddp_2cpu", devices,
                  {"--set", "epochs=", "--set", "steps=" + steps, "--set", "eval_every=0", "--set", "dataset.limit=320",
                   "--set", "dataset.test_limit=200", "--set", "checkpoint={every_epochs: 0, every_steps: 20}"});
}

std::vector<Command> WatchdogTest::programs(size_t count, const std::string& steps) const {
  return std::vector<Command>(count, program("run", 1, steps));
}

LaunchOptions WatchdogTest::job(int grace_s, const std::string& steps) const {
  LaunchOptions options;
  options.processes = programs(2, steps);
  options.folder = folder_.path();
  options.grace_s = grace_s;
  options.timeout_s = 120;
  return options;
}

void WatchdogTest::wait_until_trained(Process& process) const {
  const auto second = run("run") / "checkpoints" / "step-000040" / "manifest.json";
  process.wait_until([&second] { return std::filesystem::exists(second); });
}

std::string WatchdogTest::host_name() {
  std::array<char, 256> name = {};
  EXPECT_EQ(::gethostname(name.data(), name.size() - 1), 0);
  return name.data();
}

std::string WatchdogTest::name(const Launch& launch, size_t process, const std::string& host) {
  return fmt::format("process {} (host {}, pid {}, rank {})", process, host, launch.pid(process), process);
}

json WatchdogTest::expect_lost(const Finished& survivor, size_t process, const std::vector<std::string>& words) const {
  EXPECT_EQ(survivor.exit, 75) << survivor.err;
  const auto file = run("run") / (process == 0 ? "fault.json" : fmt::format("fault-{}.json", process));
  json fault = json::parse(text_of(file), nullptr, false);
  if (!fault.is_object()) {
    ADD_FAILURE() << file << ": " << text_of(file) << survivor.err;
    return json::object();
  }
  EXPECT_EQ(schema_violations("fault.schema.json", fault), std::vector<std::string>()) << fault;
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

std::string WatchdogTest::hash(const std::string& name) const {
  const Finished finished = alone({dptrain_binary(), "hash", run(name).string()});
  EXPECT_EQ(finished.exit, 0) << finished.err;
  return finished.out;
}

void WatchdogTest::expect_bits_of_one_process() const {
  const Finished whole = alone(program("whole", 2));
  EXPECT_EQ(whole.exit, 0) << whole.err;
  EXPECT_EQ(hash("run"), hash("whole"));
}

void WatchdogTest::expect_resumes(const json& fault, Command on) const {
  ASSERT_TRUE(fault.contains("resume") && fault["last_checkpoint"].is_object()) << fault;
  EXPECT_TRUE(std::filesystem::exists(fault["last_checkpoint"]["path"].get<std::string>())) << fault;
  on.insert(on.end(), {"/usr/bin/env", "OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1", "/bin/sh", "-c",
                       fault["resume"]});
  const Finished resumed = alone(on);
  EXPECT_EQ(resumed.exit, 0) << resumed.err << fault;
  for (const char* file : {"fault.json", "fault-1.json", "fault-process-2.json", "fault-process-3.json"})
    EXPECT_FALSE(std::filesystem::exists(run("run") / file)) << file;
  expect_bits_of_one_process();
}

}  // namespace dptrain::testing
