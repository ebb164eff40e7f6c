// A plan of several processes says what their training then measures.
#include "processes/job_training.h"

namespace dptrain::testing {
namespace {

class PlannedJobTest : public JobTrainingTest {
 protected:
  /// What both take.
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
  EXPECT_NE(refused.err.find("expected a run of one process a host, got several on one"), std::string::npos)
      << refused.err;
}

}  // namespace
}  // namespace dptrain::testing
