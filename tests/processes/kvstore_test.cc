// A key-value store on servers in separate processes trains as ddp does on the same parts of the data.
#include <signal.h>

#include <algorithm>
#include <utility>

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
  std::vector<int> devices;  ///< for each process
  Command settings = {};
  std::string config = "lenet_ddp_2cpu";
};

void PrintTo(const Stored& stored, std::ostream* out) { *out << stored.name; }

class DistStoreTest : public JobTrainingTest, public ::testing::WithParamInterface<Stored> {
 protected:
  json trained(const std::string& name, const std::string& strategy) const {
    std::vector<Command> processes;
    for (const int devices : GetParam().devices)
      processes.push_back(training(name, GetParam().config, devices, with_strategy(strategy, GetParam().settings)));
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

TEST_F(JobTrainingTest, ServersInProcessesOfTheirOwnEndInTheSameBits) {
  const auto train = [&](const std::string& name, const std::string& strategy, size_t processes) {
    return launch_processes(
        std::vector<Command>(processes, training(name, "lenet_ddp_2cpu", 2, with_strategy(strategy))));
  };
  ASSERT_EQ(train("inside", "{name: kvstore, type: dist_sync}", 2).processes[0].exit, 0);
  const Launched job = train("apart", "{name: kvstore, type: dist_sync, servers: 3}", 6);
  for (const Finished& process : job.processes) {
    ASSERT_EQ(process.exit, 0) << process.err;
    EXPECT_EQ(process.err, "");
  }
  const json inside = last_epoch(run("inside")), apart = last_epoch(run("apart"));
  EXPECT_EQ(apart["weights_hash"], inside["weights_hash"]);
  EXPECT_EQ(apart["world_size"], 4) << "servers and the scheduler have no devices";
  EXPECT_EQ(apart["kvstore"]["bytes"].size(), 3u);
}

TEST_F(JobTrainingTest, AStoreOnServersSharesTheDataOutByProcessUnlessToldOtherwise) {
  const auto hash = [&](const std::string& name, const std::string& strategy, const std::string& partition) {
    Command settings = with_strategy(strategy);
    const auto at = std::ranges::find(settings, "dataset.partition=by_process");
    if (partition.empty())
      settings.erase(at - 1, at + 1);
    else
      *at = "dataset.partition=" + partition;
    const Command command = training(name, "lenet_ddp_2cpu", 1, settings);
    const Launched job = launch_processes({command, command});
    EXPECT_EQ(job.processes[0].exit, 0) << job.processes[0].err;
    return last_epoch(run(name))["weights_hash"].get<std::string>();
  };
  const std::string own_parts = hash("ddp", "ddp", "by_process"), store = "{name: kvstore, type: dist_sync}";
  EXPECT_EQ(hash("by_default", store, ""), own_parts);
  EXPECT_NE(hash("global", store, "global"), own_parts);
  EXPECT_NE(hash("ddp_by_default", "ddp", ""), own_parts);
}

/// The commands are those that the configurations' first lines give for a machine without GPUs.
TEST_F(JobTrainingTest, ConfigurationsWithServersAreStartedByTheScript) {
  for (const char* config :
       {"lenet_kvstore_dist_sync_2x4gpu", "lenet_kvstore_dist_device_sync_2x4gpu", "lenet_kvstore_dist_async_2x4gpu"}) {
    SCOPED_TRACE(config);
    Command command = {"/usr/bin/env",
                       "OMPI_ALLOW_RUN_AS_ROOT=1",
                       "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1",
                       source_file("scripts/launch.sh"),
                       "-n",
                       "2",
                       "-s",
                       "2",
                       "--"};
    const Command trained = training(config, config, 4, kLittleData);
    command.insert(command.end(), trained.begin(), trained.end());
    const Finished launched = alone(command);
    ASSERT_EQ(launched.exit, 0) << launched.err;
    const json last = last_epoch(run(config));
    EXPECT_EQ(last["world_size"], 8);
    EXPECT_EQ(last["kvstore"]["bytes"].size(), 2u);
    EXPECT_EQ(last["staleness"].is_null(), std::string(config).find("async") == std::string::npos);
  }
}

TEST_F(JobTrainingTest, AsynchronousUpdatesThatLearnNothingAreToldOfOnce) {
  Command settings = with_strategy("{name: kvstore, type: dist_async}", {"--set", "learning_rate=1e-9"});
  Command command = training("job", "lenet_ddp_2cpu", 1, settings);
  std::erase(command, "--quiet");
  const Launched job = launch_processes({command, command});
  for (const Finished& process : job.processes) EXPECT_EQ(process.exit, 0) << process.err;
  EXPECT_NE(job.processes[0].err.find("epoch 1: the training loss, 2.3"), std::string::npos) << job.processes[0].err;
  const std::vector<std::string> lines = lines_of(job.processes[0].err + job.processes[1].err);
  EXPECT_EQ(std::ranges::count_if(lines, [](const auto& line) { return line.find("chance level") != line.npos; }), 1)
      << job.processes[0].err;
}

/// Servers may run on hosts without the workers' GPUs.
TEST_F(JobTrainingTest, ServersNeedNoneOfTheDevices) {
  const Command worker =
      training("job", "lenet_ddp_2cpu", 2, with_strategy("{name: kvstore, type: dist_sync, servers: 1}"));
  Command server = worker;
  std::ranges::replace(server, cpu_devices(2), "cuda:60");
  const Launched job = launch_processes({worker, worker, server, server});
  for (const Finished& process : job.processes) EXPECT_EQ(process.exit, 0) << process.err;
  EXPECT_EQ(last_epoch(run("job"))["world_size"], 4);
}

TEST_F(JobTrainingTest, AsynchronousUpdatesLearnAndTellHowStaleTheyWere) {
  const auto train = [&](const std::string& strategy) {
    Command settings = with_strategy(strategy, {"--set", "log_steps=true", "--overwrite"});
    settings[3] = "dataset.limit=2000";
    const Launched job = launch_processes(std::vector<Command>(5, training("async", "lenet_ddp_2cpu", 1, settings)));
    for (const Finished& process : job.processes) EXPECT_EQ(process.exit, 0) << process.err;
    return last_epoch(run("async"));
  };
  const json free = train("{name: kvstore, type: dist_async, servers: 2}");
  ASSERT_FALSE(free.is_null());
  EXPECT_GT(free["test"]["accuracy"], 0.2) << "chance is 0.1; how much more goes by how stale gradients were";
  EXPECT_EQ(free["train"]["samples"], 2000);
  int64_t pushes = 0;
  for (const json& count : free["staleness"]["histogram"]) pushes += count.get<int64_t>();
  EXPECT_EQ(pushes, free["step"].get<int64_t>() * 2 * 2) << "of two workers on two servers";
  EXPECT_EQ(free["staleness"]["max"].get<size_t>() + 1, free["staleness"]["histogram"].size());
  const std::string steps = text_of(run("async") / "steps.jsonl");
  EXPECT_EQ(std::ranges::count(steps, '\n'), free["step"].get<int64_t>());
  // With a bound of 0 no worker begins a step before the other one does. At most two pushes are missed: the other's
  // last one and its current one.
  const json bounded = train("{name: kvstore, type: dist_async, servers: 2, max_staleness: 0}");
  EXPECT_LE(bounded["staleness"]["max"], 2);
}

/// Each worker's gradients are separate updates, so its ranks needn't be subtrees of the tree over all.
TEST_F(JobTrainingTest, AsynchronousWorkersMayHaveAnyDevices) {
  for (const auto& [first, second] : {std::pair{3, 3}, {1, 3}}) {
    Command settings = with_strategy("{name: kvstore, type: dist_async}", {"--overwrite"});
    settings[3] = "dataset.limit=2000";
    const Launched job = launch_processes(
        {training("job", "lenet_ddp_2cpu", first, settings), training("job", "lenet_ddp_2cpu", second, settings)});
    for (const Finished& process : job.processes) ASSERT_EQ(process.exit, 0) << process.err;
    EXPECT_GT(last_epoch(run("job"))["test"]["accuracy"], 0.2) << first << " and " << second;
  }
}

/// Adam's moments are restored, and so is the number of updates in their bias correction: with a number of 0 the
/// weights would hardly move.
TEST_F(JobTrainingTest, AsynchronousWorkersGoOnFromACheckpoint) {
  Command settings =
      with_strategy("{name: kvstore, type: dist_async, max_staleness: 0}",
                    {"--set", "optimizer=adam", "--set", "learning_rate=0.001", "--set", "checkpoint.every_steps=10"});
  settings[3] = "dataset.limit=2000";
  const auto train = [&](const std::string& epochs) {
    settings[1] = "epochs=" + epochs;
    return launch_processes(std::vector<Command>(2, training("job", "lenet_ddp_2cpu", 1, settings)));
  };
  ASSERT_EQ(train("1").processes[0].exit, 0);
  const double before = last_epoch(run("job"))["test"]["loss"];
  settings.emplace_back("--resume");
  const Launched resumed = train("2");
  ASSERT_EQ(resumed.processes[0].exit, 0) << resumed.processes[0].err;
  EXPECT_EQ(last_epoch(run("job"))["epoch"], 2);
  EXPECT_LT(last_epoch(run("job"))["test"]["loss"], before);
}

/// Processes that only serve are told that there is nothing to train.
TEST_F(JobTrainingTest, AFinishedRunOfServersStaysFinishedWithoutItsCheckpoints) {
  Command settings = with_strategy("{name: kvstore, type: dist_sync, servers: 1}", kLittleData);
  const auto train = [&] {
    return launch_processes(std::vector<Command>(4, training("job", "lenet_ddp_2cpu", 1, settings)));
  };
  for (const Finished& process : train().processes) ASSERT_EQ(process.exit, 0) << process.err;
  std::filesystem::remove_all(run("job") / "checkpoints");
  settings.emplace_back("--resume");
  const Launched again = train();
  for (const Finished& process : again.processes) EXPECT_EQ(process.exit, 0) << process.err;
  EXPECT_FALSE(std::filesystem::exists(run("job") / "checkpoints")) << "nothing was trained";
  EXPECT_TRUE(std::filesystem::exists(run("job") / "summary.json"));
}

/// In the first step every worker has the initial weights. One push of each worker moves them as far as one synchronous
/// step, even with different shares of the batch and with weight decay.
TEST_F(JobTrainingTest, APushOfEachMovesAsFarAsAStepOfAll) {
  const auto loss_after_a_step = [&](const std::string& type) {
    const std::string strategy = "{name: kvstore, type: " + type + "}";
    Command settings =
        with_strategy(strategy, {"--set", "steps=1", "--set", "batch_size=60", "--set",
                                 "optimizer={name: sgd, weight_decay: 0.1}", "--set", "learning_rate=0.1"});
    settings[1] = "epochs=";
    const Launched job = launch_processes(
        {training(type, "lenet_ddp_2cpu", 1, settings), training(type, "lenet_ddp_2cpu", 2, settings)});
    EXPECT_EQ(job.processes[0].exit, 0) << job.processes[0].err;
    return last_epoch(run(type))["test"]["loss"].get<double>();
  };
  // A step changes the loss by 2e-3. The later push also decays what the earlier one has moved, by the learning rate
  // squared times the decay.
  EXPECT_NEAR(loss_after_a_step("dist_async"), loss_after_a_step("dist_sync"), 2e-4);
}

TEST_F(JobTrainingTest, ASignalStopsAsynchronousWorkersAfterTheSameStep) {
  Command settings = with_strategy("{name: kvstore, type: dist_async, servers: 1}");
  settings[1] = "epochs=1000";
  const Command command = training("job", "lenet_ddp_2cpu", 1, settings);
  Launch job(
      {.processes = std::vector<Command>(4, command), .folder = folder_.path(), .on = {}, .flags = {}, .grace_s = 3});
  job.launcher().wait_until([&] { return !text_of(run("job") / "metrics.jsonl").empty(); });
  ASSERT_EQ(::kill(job.pid(1), SIGTERM), 0);
  const Launched ended = job.wait();
  const json summary = json::parse(text_of(run("job") / "summary.json"));
  EXPECT_EQ(summary["exit"], 143);
  for (const size_t worker : {0u, 1u}) {
    EXPECT_EQ(ended.processes[worker].exit, 143) << ended.processes[worker].err;
    EXPECT_NE(ended.processes[worker].err.find("stopped by SIGTERM after step"), std::string::npos);
  }
  for (const size_t server : {2u, 3u}) EXPECT_EQ(ended.processes[server].exit, 143) << ended.processes[server].err;
}

TEST_F(JobTrainingTest, AStoreNeedsAProcessThatTrains) {
  const Command command =
      training("job", "lenet_ddp_2cpu", 1, with_strategy("{name: kvstore, type: dist_sync, servers: 2}"));
  const Launched job = launch_processes({command, command, command});
  for (const Finished& process : job.processes) {
    EXPECT_EQ(process.exit, 78) << process.err;
    EXPECT_NE(process.err.find("strategy: expected more processes than the 3 of the servers and their scheduler"),
              std::string::npos)
        << process.err;
  }
}

TEST_F(JobTrainingTest, WhatAsynchronousWorkersCantDoTogetherIsRefused) {
  for (const char* setting : {"clip_norm=1", "batch_norm=sync", "shards=4"}) {
    const Finished refused = alone(
        training("job", "lenet_ddp_2cpu", 1, with_strategy("{name: kvstore, type: dist_async}", {"--set", setting})));
    EXPECT_EQ(refused.exit, 78) << setting;
    EXPECT_NE(refused.err.find("kvstore of type dist_async waits for no other process"), std::string::npos)
        << refused.err;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Stores, DistStoreTest,
    ::testing::Values(Stored{"one_and_one", "{name: kvstore, type: dist_sync}", {1, 1}},
                      Stored{"three_and_three", "{name: kvstore, type: dist_sync}", {3, 3}},
                      Stored{"three_processes", "{name: kvstore, type: dist_device_sync}", {1, 2, 1}},
                      Stored{"round_robin", "{name: kvstore, type: dist_sync, placement: round_robin}", {2, 1}},
                      Stored{"adam_groups_ema_and_accumulate",
                             "{name: kvstore, type: dist_sync}",
                             {2, 2},
                             {"--set", "optimizer=adamw", "--set", "learning_rate=0.001", "--set", "ema=0.9", "--set",
                              "accumulate=2", "--set",
                              "parameter_groups=[{dimensions: 1, weight_decay_factor: 0}, "
                              "{of: fc2, learning_rate_factor: 9}]"}},
                      // LAMB needs the norms of keys of which each server has a part.
                      Stored{"lamb",
                             "{name: kvstore, type: dist_sync}",
                             {1, 2},
                             {"--set", "optimizer=lamb", "--set", "learning_rate=0.01", "--set",
                              "parameter_groups=[{dimensions: 1, weight_decay_factor: 0}]"}},
                      // Running statistics aren't keys of the store.
                      Stored{"batch_norms",
                             "{name: kvstore, type: dist_sync}",
                             {1, 2},
                             {"--set",
                              "dataset={name: synthetic, samples: 60, test_samples: 20, shape: [3, 32, 32], "
                              "partition: by_process}",
                              "--set", "batch_size=24"},
                             "pyramidnet_small_1cpu"},
                      // A tied embedding, the largest key, is sliced; gradients are clipped by one norm.
                      Stored{
                          "text",
                          "{name: kvstore, type: dist_sync}",
                          {1, 2},
                          {"--set", "dataset={name: synthetic, samples: 36, test_samples: 12, partition: by_process}",
                           "--set", "model={name: bert, vocab: 400, hidden: 32, layers: 1, heads: 2, seq: 24}", "--set",
                           "batch_size=12", "--set", "steps="},
                          "bert_small_1cpu"}),
    [](const ::testing::TestParamInfo<Stored>& stored) { return stored.param.name; });

TEST_F(JobTrainingTest, AStoreOnServersClipsByTheNormOfAllGradients) {
  const auto trained = [&](const std::string& name, const std::string& strategy) {
    const Command command = training(name, "lenet_ddp_2cpu", 1, with_strategy(strategy, {"--set", "clip_norm=0.05"}));
    const Launched job = launch_processes({command, command});
    EXPECT_EQ(job.processes[0].exit, 0) << job.processes[0].err;
    return last_epoch(run(name));
  };
  const json stored = trained("stored", "{name: kvstore, type: dist_sync}"), ddp = trained("ddp", "ddp");
  EXPECT_EQ(stored["weights_hash"], ddp["weights_hash"]);
  EXPECT_EQ(stored["test"]["loss"], ddp["test"]["loss"]);
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
  EXPECT_NE(other.processes[0].err.find("dataset.partition"), std::string::npos) << other.processes[0].err;
  const Launched same = train("job", "2", 2);
  ASSERT_EQ(same.processes[0].exit, 0) << same.processes[0].err;
  EXPECT_EQ(last_epoch(run("job"))["weights_hash"], last_epoch(run("whole"))["weights_hash"]);
}

}  // namespace
}  // namespace dptrain::testing
