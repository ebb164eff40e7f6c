// A key-value store on servers of several processes trains as ddp does on the same parts of the data.
#include "processes/job_training.h"

namespace dptrain::testing {
namespace {

Command with_strategy(const std::string& strategy, const Command& more = {}) {
  Command settings = {"--set", "epochs=1",
                      "--set", "dataset.limit=320",
                      "--set", "dataset.test_limit=200",
                      "--set", "dataset.partition=by_process",
                      "--set", "strategy=" + strategy};
  settings.insert(settings.end(), more.begin(), more.end());
  return settings;
}

struct Stored {
  std::string name;
  std::string store;
  std::vector<int> devices;  ///< of each process
  Command settings = {};
};

void PrintTo(const Stored& stored, std::ostream* out) { *out << stored.name; }

class DistStoreTest : public JobTrainingTest, public ::testing::WithParamInterface<Stored> {
 protected:
  json trained(const std::string& name, const std::string& strategy) const {
    std::vector<Command> processes;
    for (const int devices : GetParam().devices)
      processes.push_back(training(name, "lenet_ddp_2cpu", devices, with_strategy(strategy, GetParam().settings)));
    const Launched job = launch_processes(processes);
    for (const Finished& process : job.processes) EXPECT_EQ(process.exit, 0) << process.err;
    return last_epoch(run(name));
  }
};

TEST_P(DistStoreTest, EndsInTheBitsOfDdp) {
  const json ddp = trained("ddp", "ddp"), stored = trained("stored", GetParam().store);
  ASSERT_FALSE(stored.is_null());
  EXPECT_EQ(stored["weights_hash"], ddp["weights_hash"]);
  for (const char* pass : {"train", "test"})
    for (const char* figure : {"loss", "accuracy", "samples"})
      EXPECT_EQ(stored[pass][figure], ddp[pass][figure]) << pass << " " << figure;
  EXPECT_EQ(stored["step"], ddp["step"]);
  EXPECT_EQ(stored["kvstore"]["bytes"].size(), GetParam().devices.size()) << "a server in each process";
}

INSTANTIATE_TEST_SUITE_P(
    Stores, DistStoreTest,
    ::testing::Values(Stored{"one_and_one", "{name: kvstore, type: dist_sync}", {1, 1}},
                      Stored{"three_and_three", "{name: kvstore, type: dist_sync}", {3, 3}},
                      Stored{"three_processes", "{name: kvstore, type: dist_device_sync}", {1, 2, 1}},
                      Stored{"round_robin", "{name: kvstore, type: dist_sync, placement: round_robin}", {2, 1}},
                      Stored{"adam_ema_and_accumulate",
                             "{name: kvstore, type: dist_sync}",
                             {2, 2},
                             {"--set", "optimizer=adamw", "--set", "learning_rate=0.001", "--set", "ema=0.9", "--set",
                              "accumulate=2"}}),
    [](const ::testing::TestParamInfo<Stored>& stored) { return stored.param.name; });

TEST_F(JobTrainingTest, AStoreOnServersClipsByTheNormOfAllGradients) {
  const auto loss_of = [&](const std::string& name, const std::string& strategy) {
    const Command command = training(name, "lenet_ddp_2cpu", 1, with_strategy(strategy, {"--set", "clip_norm=0.05"}));
    const Launched job = launch_processes({command, command});
    EXPECT_EQ(job.processes[0].exit, 0) << job.processes[0].err;
    return last_epoch(run(name))["test"]["loss"].get<double>();
  };
  // Squares are added by ranges, which rounds otherwise.
  EXPECT_NEAR(loss_of("stored", "{name: kvstore, type: dist_sync}"), loss_of("ddp", "ddp"), 1e-6);
}

TEST_F(JobTrainingTest, AStoreOnServersGoesOnFromACheckpoint) {
  Command settings = with_strategy("{name: kvstore, type: dist_sync}");
  const auto train = [&](const std::string& name, const std::string& epochs, int processes) {
    settings[1] = "epochs=" + epochs;
    return launch_processes(
        std::vector<Command>(static_cast<size_t>(processes), training(name, "lenet_ddp_2cpu", 1, settings)));
  };
  ASSERT_EQ(train("whole", "2", 2).processes[0].exit, 0);
  ASSERT_EQ(train("job", "1", 2).processes[0].exit, 0);
  settings.emplace_back("--resume");
  // Another number of processes has other parts of the data.
  const Launched other = train("job", "2", 3);
  EXPECT_EQ(other.processes[0].exit, 65) << other.processes[0].err;
  EXPECT_NE(other.processes[0].err.find("dataset.order"), std::string::npos) << other.processes[0].err;
  const Launched same = train("job", "2", 2);
  ASSERT_EQ(same.processes[0].exit, 0) << same.processes[0].err;
  EXPECT_EQ(last_epoch(run("job"))["weights_hash"], last_epoch(run("whole"))["weights_hash"]);
}

}  // namespace
}  // namespace dptrain::testing
