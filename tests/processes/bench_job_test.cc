// `dptrain bench comm` of several processes.
#include <fmt/format.h>
#include <signal.h>

#include "processes/job_training.h"

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
  /// Until both have joined, as far as one can see.
  static void wait_until_begun(Launch& launch) {
    launch.launcher().wait_until([&] {
      const auto has_threads = [&](size_t process) {
        const auto tasks = fmt::format("/proc/{}/task", launch.pid(process));
        std::error_code gone;
        return launch.pid(process) > 0 && std::distance(std::filesystem::directory_iterator(tasks, gone),
                                                        std::filesystem::directory_iterator()) > 4;
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
  EXPECT_EQ(document["devices"], json({"cpu:0", "cpu:1", "cpu:0"}));
  EXPECT_EQ(document["hosts"].size(), 3u);
  EXPECT_EQ(document["processes"], json({0, 0, 1}));
  ASSERT_EQ(document["comm"].size(), 10u) << "five collectives of two sizes";
  for (const json& row : document["comm"]) {
    EXPECT_GT(row["seconds"], 0) << row;
    EXPECT_GT(row["copy_s"], 0) << row;
    EXPECT_GT(row["sent_bytes"], 0) << row;
  }
  // 2 (N - 1) / N of the buffer by each rank.
  EXPECT_EQ(document["comm"][1]["sent_bytes"], 4 * document["comm"][1]["bytes"].get<int64_t>());
}

TEST_F(BenchJobTest, ProcessesThatAreToMeasureOtherThingsAreToldSo) {
  const Launched job = launch_processes({bench("cpu:0", {"--mb", "1"}), bench("cpu:0", {"--mb", "2"})});
  for (const Finished& process : job.processes) {
    EXPECT_EQ(process.exit, 76) << process.err;
    EXPECT_NE(process.err.find("mb: [1] on process 0"), std::string::npos) << process.err;
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
