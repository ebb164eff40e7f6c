// A plan of several processes gives what their training run then measures.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "processes/job_training.h"
#include "support/hosts.h"

namespace dptrain::testing {
namespace {

class PlannedJobTest : public JobTrainingTest {
 protected:
  /// Settings of both the plan and the run.
  static Command settings(const std::string& store) {
    Command command = kLittleData;
    command.insert(command.end(), {"--set", "threads=1", "--set", "strategy=" + store});
    return command;
  }
  json trained(const std::string& name, size_t processes, const std::string& store) const {
    const Launched job =
        launch_processes(std::vector<Command>(processes, training(name, "lenet_ddp_2cpu", 2, settings(store))));
    for (const Finished& process : job.processes) EXPECT_EQ(process.exit, 0) << process.err;
    return last_epoch(run(name));
  }
  Finished plan(const Command& more) const {
    Command command = {dptrain_binary(), "plan", "--config", "lenet_ddp_2cpu", "--json"};
    command.insert(command.end(), more.begin(), more.end());
    return alone(command);
  }
};

TEST_F(PlannedJobTest, OfAStoreOnServersSendsWhatItsProcessesDo) {
  folder_.write("links.yaml", "hosts: {devices: 2, gbps: 1}\n");
  for (const auto& [processes, store] : {std::pair(size_t{2}, "{name: kvstore, type: dist_sync}"),
                                         {5, "{name: kvstore, type: dist_sync, servers: 2}"}}) {
    SCOPED_TRACE(store);
    const json got = trained(std::to_string(processes), processes, store);
    ASSERT_FALSE(got.is_null());
    Command command = settings(store);
    command.insert(command.end(), {"--devices", "4xcpu", "--links", (folder_.path() / "links.yaml").string()});
    const Finished planned = plan(command);
    ASSERT_EQ(planned.exit, 0) << planned.err;
    const json document = json::parse(planned.out);
    int64_t bytes = 0;
    for (const json& rank : document["ranks"]) bytes += rank["comm"]["bytes"].get<int64_t>();
    constexpr int kWorkers = 2, kSteps = 5;
    EXPECT_EQ(kWorkers * kSteps * bytes, got["comm"]["bytes"]);
    EXPECT_EQ(document["store_bytes"], got["kvstore"]["bytes"]);
    EXPECT_EQ(document["served"]["servers"], 2);
  }
}

TEST_F(PlannedJobTest, ARunOfSeveralProcessesOnAHostCalibratesNone) {
  const json got = trained("two", 2, "{name: ddp, overlap: false}");
  ASSERT_EQ(got["devices"].size(), 4u);
  EXPECT_EQ(got["devices"][1]["process"], 0);
  EXPECT_EQ(got["devices"][2]["process"], 1);
  const Finished refused = plan({"--devices", "4xcpu", "--calibrate", run("two").string()});
  EXPECT_EQ(refused.exit, 78);
  EXPECT_NE(refused.err.find("expected a run with one process per host, got several on one host"), std::string::npos)
      << refused.err;
}

/// These tests time what they run, so nothing else may run at the same time.
class LongPlannedJobTest : public PlannedJobTest, public ::testing::WithParamInterface<Way> {
 protected:
  static constexpr int kSteps = 8, kBatch = 1024;

  /// The settings of the run, for `workers` workers.
  static Command settings_of(const std::string& strategy, int workers) {
    Command command;
    for (const std::string& setting :
         {fmt::format("dataset={{name: synthetic, shape: [1, 28, 28], samples: {}, test_samples: 10}}",
                      kSteps * kBatch),
          fmt::format("batch_size={}", kBatch / 2 * workers), std::string("threads=1"), std::string("epochs=2"),
          std::string("eval_every=0"), std::string("checkpoint.every_epochs=0"), "strategy=" + strategy})
      command.insert(command.end(), {"--set", setting});
    return command;
  }
  /// The output of a command that two hosts run, with one CPU worker each.
  std::string on_hosts(const Hosts& hosts, const Command& command) const {
    const Launched job = Launch(hosts.launch_options({command, command}, folder_.path())).wait();
    for (const Finished& process : job.processes) EXPECT_EQ(process.exit, 0) << process.err;
    return job.processes[0].out;
  }
  /// Seconds per step.
  double train_on(const Hosts& hosts, const std::string& name, const std::string& strategy) const {
    std::filesystem::remove_all(run(name));
    on_hosts(hosts, training(name, "lenet_ddp_2cpu", 1, settings_of(strategy, 2)));
    return last_epoch(run(name))["train"]["seconds"].get<double>() / kSteps;
  }
  /// The ratio of planned to measured time over a slow link. The plan uses what was measured over a free link right
  /// before.
  double ratio_of_a_round(const Hosts& hosts, const std::string& strategy) const {
    hosts.slow("free");
    Command bench = {dptrain_binary(), "bench", "ops", "--config", "lenet_ddp_2cpu", "--json", "--devices", "cpu:0"};
    const Command alone_settings = settings_of("", 1);
    bench.insert(bench.end(), alone_settings.begin(), alone_settings.end());
    folder_.write("operators.json", alone(bench).out);
    folder_.write("comm.json", on_hosts(hosts, {dptrain_binary(), "bench", "comm", "--devices", "cpu:0", "--mb",
                                                "0.0001,25", "--json"}));
    train_on(hosts, "free", "ddp");
    // Of a frame of 1514 bytes, 1448 are data.
    folder_.write("links.yaml", fmt::format("hosts: {{devices: 1, gbps: {}}}\n", 0.2 * 1448 / 1514));
    Command flags = {"--devices", "2xcpu"};
    for (const auto& [flag, file] : {std::pair("--links", "links.yaml"),
                                     {"--operators", "operators.json"},
                                     {"--comm", "comm.json"},
                                     {"--calibrate", "free"}})
      flags.insert(flags.end(), {flag, (folder_.path() / file).string()});
    const Command settings = settings_of(strategy, 2);
    flags.insert(flags.end(), settings.begin(), settings.end());
    const Finished planned = plan(flags);
    EXPECT_EQ(planned.exit, 0) << planned.err;
    hosts.slow("200mbit");
    return json::parse(planned.out)["time"]["step_s"].get<double>() / train_on(hosts, "held", strategy);
  }
};

/// docs/scaling.md has such ratios for more models, strategies and rates, from scripts/scaling.py --hosts. A single
/// undisturbed round suffices.
TEST_P(LongPlannedJobTest, AStepOverASlowLinkTakesNearlyThat) {
  // For LeNet on servers, docs/scaling.md has plans that are 14 to 20 % too short, because a plan doesn't fully cover
  // how servers and workers slow each other down on shared cores.
  const double most = GetParam().name == "dist_sync" ? 0.25 : 0.15;
  // Whatever else the machine does may disturb a round. What the same hosts measure stays alike from round to round, so
  // that each has hosts of its own.
  constexpr size_t kMostRounds = 6;
  std::vector<double> ratios;
  const auto closest = [&ratios] {
    return *std::ranges::min_element(ratios, {}, [](double ratio) { return std::abs(ratio - 1); });
  };
  while (ratios.size() < kMostRounds && (ratios.empty() || std::abs(closest() - 1) > most)) {
    const Hosts hosts(2);
    if (!hosts.absence().empty()) GTEST_SKIP() << hosts.absence();
    ratios.push_back(ratio_of_a_round(hosts, GetParam().config));
  }
  EXPECT_NEAR(closest(), 1, most) << fmt::format("planned to measured, round by round: {:.3f}",
                                                 fmt::join(ratios, ", "));
}

INSTANTIATE_TEST_SUITE_P(
    Links, LongPlannedJobTest,
    ::testing::Values(Way{.name = "ddp", .config = "ddp", .devices = {}},
                      Way{.name = "next_forward", .config = "{name: ddp, overlap: next_forward}", .devices = {}},
                      Way{.name = "bf16", .config = "{name: ddp, compress: bf16}", .devices = {}},
                      Way{.name = "dist_sync", .config = "{name: kvstore, type: dist_sync}", .devices = {}}),
    [](const auto& way) { return way.param.name; });

}  // namespace
}  // namespace dptrain::testing
