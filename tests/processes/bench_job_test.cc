// `dptrain bench comm` in several processes.
#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <iterator>

#include "device/host_machine.h"
#include "processes/job_training.h"
#include "support/json_schema.h"

namespace dptrain::testing {
namespace {

class BenchJobTest : public JobTrainingTest {
 protected:
  static Command bench(const std::string& devices, const Command& more = {}) {
    Command command = {dptrain_binary(), "bench", "comm", "--devices", devices};
    command.insert(command.end(), more.begin(), more.end());
    return command;
  }
  /// Two processes that measure for hours.
  LaunchOptions long_bench() const {
    const Command each = bench("cpu:0", {"--mb", "1", "--repeats", "10000"});
    return {.processes = {each, each}, .folder = folder_.path(), .grace_s = 2};
  }
  /// Waits until both processes have joined, as far as a test can see.
  static void wait_until_begun(Launch& launch) {
    launch.launcher().wait_until([&] {
      const auto has_threads = [&](size_t process) {
        const auto tasks = fmt::format("/proc/{}/task", launch.pid(process));
        std::error_code gone;
        return std::distance(std::filesystem::directory_iterator(tasks, gone), std::filesystem::directory_iterator()) >
               4;
      };
      return has_threads(0) && has_threads(1);
    });
  }
};

TEST_F(BenchJobTest, MeasuresTheRanksOfAllProcesses) {
  const Command small = {"--mb", "0.01,1", "--repeats", "3", "--json"};
  const Launched job = launch_processes({bench("cpu:0-1", small), bench("cpu:0", small)});
  for (const Finished& process : job.processes) EXPECT_EQ(process.exit, 0) << process.err;
  EXPECT_EQ(job.processes[1].out, "") << "the first process talks";
  const json document = json::parse(job.processes[0].out);
  EXPECT_EQ(schema_violations("comm.schema.json", document), std::vector<std::string>());
  EXPECT_EQ(document["devices"], json({"cpu:0", "cpu:1", "cpu:0"}));
  EXPECT_EQ(document["hosts"].size(), 3u);
  EXPECT_EQ(document["processes"], json({0, 0, 1}));
  ASSERT_EQ(document["comm"].size(), 10u) << "five collectives of two sizes";
  for (const json& row : document["comm"]) {
    EXPECT_GT(row["seconds"], 0) << row;
    EXPECT_GT(row["copy_s"], 0) << row;
    EXPECT_GT(row["sent_bytes"], 0) << row;
  }
  // Each rank sends 2 (N - 1) / N of the buffer.
  EXPECT_EQ(document["comm"][1]["sent_bytes"], 4 * document["comm"][1]["bytes"].get<int64_t>());
}

TEST_F(BenchJobTest, OneOfManyProcessesSaysTheTable) {
  const Launched job = launch_processes(std::vector<Command>(3, bench("cpu:0", {"--mb", "0.01", "--repeats", "1"})));
  for (const Finished& process : job.processes) EXPECT_EQ(process.exit, 0) << process.err;
  EXPECT_TRUE(job.processes[0].out.starts_with("collective")) << job.processes[0].out;
  for (const size_t other : {1, 2}) EXPECT_EQ(job.processes[other].out, "");
}

/// The measured exchange between processes replaces what a links file says of their cores.
TEST_F(BenchJobTest, APlanIsMadeOfIt) {
  const Launched job = launch_processes(std::vector<Command>(2, bench("cpu:0", {"--mb", "0.0001,8", "--json"})));
  ASSERT_EQ(job.processes[0].exit, 0) << job.processes[0].err;
  folder_.write("comm.json", job.processes[0].out);
  const Command settings = {"--config", "lenet_ddp_2cpu", "--set", "threads=1", "--json"};
  const auto ran = [&](Command command, const Command& more) {
    command.insert(command.begin(), dptrain_binary());
    command.insert(command.end(), settings.begin(), settings.end());
    command.insert(command.end(), more.begin(), more.end());
    return alone(command);
  };
  folder_.write("operators.json", ran({"bench", "ops"}, {"--steps", "1"}).out);
  const auto file = [&](const char* name) { return (folder_.path() / name).string(); };
  const auto planned = [&](const std::string& hosts, const Command& more) {
    folder_.write("links.yaml", "hosts: {devices: 1, gbps: 1000" + hosts + "}\n");
    Command flags = {"--devices", "2xcpu", "--links", file("links.yaml"), "--operators", file("operators.json")};
    flags.insert(flags.end(), more.begin(), more.end());
    const Finished finished = ran({"plan"}, flags);
    EXPECT_EQ(finished.exit, 0) << finished.err;
    return json::parse(finished.out)["time"];
  };
  const Command comm = {"--comm", file("comm.json")};
  const json free = planned("", {}), measured = planned("", comm);
  EXPECT_GT(measured["comm_s"], free["comm_s"]);
  EXPECT_EQ(planned(", message_us: 10000, message_gbps: 0.001, memory_gbps: 0.001", comm), measured);
  EXPECT_NE(measured["figures"].get<std::string>().find("exchange measured by "), std::string::npos);

  const auto refused = [&](const Command& more, const char* words) {
    const Finished finished = ran({"plan"}, more);
    EXPECT_EQ(finished.exit, 78) << finished.err;
    EXPECT_NE(finished.err.find(words), std::string::npos) << finished.err;
  };
  refused({"--devices", "2xcpu", "--links", file("links.yaml"), "--comm", file("comm.json")},
          "got neither --operators nor --calibrate; give one of them");
  refused({"--devices", "cpu:0-1", "--operators", file("operators.json"), "--comm", file("comm.json")},
          "applies only to CPU workers on several hosts");
  refused({"--devices", "2xh200", "--links", file("links.yaml"), "--comm", file("comm.json")},
          "applies only to CPU workers on several hosts");
}

TEST_F(BenchJobTest, ProcessesThatAreToMeasureOtherThingsAreToldSo) {
  const Launched job = launch_processes({bench("cpu:0", {"--mb", "1"}), bench("cpu:0", {"--mb", "2"})});
  for (const Finished& process : job.processes) {
    EXPECT_EQ(process.exit, 76) << process.err;
    EXPECT_NE(process.err.find("mb: [1] on process 0"), std::string::npos) << process.err;
  }
}

/// A single process would have enough memory here.
TEST_F(BenchJobTest, TheMemoryOfAHostIsThatOfAllItsProcesses) {
  const int64_t mib = host_memory_bytes() >> 20, processes = 4;
  const std::string mb = std::to_string(std::min<int64_t>(4096, mib / 3));
  if (2 * processes * std::stoll(mb) <= mib) GTEST_SKIP() << "four times two buffers of 4 GiB fit this machine";
  // mpirun ends the others when the first process has ended; until then they must have printed their sentence.
  const std::vector<Command> all(processes, bench("cpu:0", {"--mb", mb}));
  const Launched job = Launch({.processes = all, .folder = folder_.path(), .grace_s = 3}).wait();
  for (const Finished& process : job.processes) {
    EXPECT_EQ(process.exit, 71) << process.err;
    EXPECT_NE(process.err.find("for each of 4 CPU workers"), std::string::npos) << process.err;
  }
}

TEST_F(BenchJobTest, EndsWhereOneIsStopped) {
  Launch launch(long_bench());
  wait_until_begun(launch);
  ::kill(launch.pid(1), SIGTERM);
  for (const Finished& process : launch.wait().processes) {
    EXPECT_EQ(process.exit, 143) << process.err;
    EXPECT_TRUE(process.last_error().starts_with("dptrain: stopped by SIGTERM")) << process.err;
    EXPECT_EQ(process.out, "");
  }
}

TEST_F(BenchJobTest, EndsWhereOneIsKilled) {
  Launch launch(long_bench());
  wait_until_begun(launch);
  ::kill(launch.pid(1), SIGKILL);
  const Finished left = launch.wait().processes[0];
  EXPECT_EQ(left.exit, 75) << left.err;
  EXPECT_NE(left.last_error().find("process 1"), std::string::npos) << left.err;
}

}  // namespace
}  // namespace dptrain::testing
