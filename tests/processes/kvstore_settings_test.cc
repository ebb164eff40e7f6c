// Other settings of a configuration work with separate servers as they do without.

#include "processes/job_training.h"

namespace dptrain::testing {
namespace {

const Command kParts = {"--set", "epochs=1",
                        "--set", "dataset.limit=320",
                        "--set", "dataset.test_limit=200",
                        "--set", "dataset.partition=by_process"};

class StoreSettingsTest : public JobTrainingTest {
 protected:
  json trained(const std::string& name, size_t processes, const std::string& strategy, const Command& more = {}) const {
    Command settings = kParts;
    settings.insert(settings.end(), {"--set", "strategy=" + strategy});
    settings.insert(settings.end(), more.begin(), more.end());
    const Launched job =
        launch_processes(std::vector<Command>(processes, training(name, "lenet_ddp_2cpu", 1, settings)));
    for (const Finished& process : job.processes) EXPECT_EQ(process.exit, 0) << process.err;
    return last_epoch(run(name));
  }
};

/// The servers also know the parameter groups, which they receive with the keys.
TEST_F(StoreSettingsTest, TwoServersClipByTheNormOfAllGradients) {
  const Command clip = {
      "--set", "clip_norm=0.05", "--set",
      "parameter_groups=[{of: [conv1, fc1], learning_rate_factor: 3}, {of: fc1.bias, learning_rate_factor: 2}]"};
  const std::string servers = "{name: kvstore, type: dist_sync, servers: 2}";
  const json stored = trained("stored", 5, servers, clip), ddp = trained("ddp", 2, "ddp", clip);
  EXPECT_EQ(stored["weights_hash"], ddp["weights_hash"]);
  EXPECT_EQ(stored["test"]["loss"], ddp["test"]["loss"]);
  const Command groups(clip.begin() + 2, clip.end()), norm(clip.begin(), clip.begin() + 2);
  EXPECT_NE(trained("unclipped", 2, "ddp", groups)["weights_hash"], ddp["weights_hash"])
      << "the norm is one that clips";
  EXPECT_NE(trained("ungrouped", 2, "ddp", norm)["weights_hash"], ddp["weights_hash"]);
}

TEST_F(StoreSettingsTest, TwoServersGoByTheNormsOfWholeLayers) {
  const Command lamb = {"--set", "optimizer=lamb", "--set", "learning_rate=0.01"};
  const json stored = trained("stored", 5, "{name: kvstore, type: dist_sync, servers: 2}", lamb),
             ddp = trained("ddp", 2, "ddp", lamb);
  EXPECT_EQ(stored["weights_hash"], ddp["weights_hash"]);
  EXPECT_EQ(stored["test"]["loss"], ddp["test"]["loss"]);
}

/// Servers and the scheduler have no rank.
TEST_F(StoreSettingsTest, AnyRankOfTheWorkersMaySufferAFault) {
  trained("stored", 4, "{name: kvstore, type: dist_sync, servers: 1}", {"--fault", "slow:rank=1,ms=1"});
  const json summary = json::parse(text_of(run("stored") / "summary.json"));
  EXPECT_EQ(summary["faults"], json({"slow:rank=1,step=1,ms=1"}));
}

/// With one worker no gradients are stale, so both types train as one device does without a store.
TEST_F(StoreSettingsTest, OneWorkerWithAServerTrainsAsOneDeviceDoes) {
  const Command ema = {"--set", "ema=0.9"};
  Command settings = kParts;
  settings.insert(settings.end(), {"--set", "strategy=single", "--set", "ema=0.9"});
  ASSERT_EQ(alone(training("one", "lenet_ddp_2cpu", 1, settings)).exit, 0);
  const json one = last_epoch(run("one"));
  for (const std::string type : {"dist_sync", "dist_async"}) {
    SCOPED_TRACE(type);
    const json stored = trained(type, 3, "{name: kvstore, type: " + type + ", servers: 1}", ema);
    ASSERT_FALSE(stored.is_null());
    EXPECT_EQ(stored["weights_hash"], one["weights_hash"]);
    EXPECT_EQ(stored["test"]["loss"], one["test"]["loss"]) << "of the averages";
    EXPECT_EQ(stored["world_size"], 1);
    EXPECT_EQ(stored["kvstore"]["bytes"].size(), 1u);
    if (type == "dist_async") {
      EXPECT_EQ(stored["staleness"]["max"], 0);
    }
  }
}

/// After only one epoch the accuracy still differs much from run to run.
TEST_F(StoreSettingsTest, AsynchronousWorkersLearnWithAverages) {
  const Command settings = {"--set", "epochs=2", "--set", "ema=0.9", "--set", "dataset.limit=2000"};
  const json averaged = trained("averaged", 2, "{name: kvstore, type: dist_async, max_staleness: 0}", settings);
  ASSERT_FALSE(averaged.is_null());
  EXPECT_GT(averaged["test"]["accuracy"], 0.5);
}

/// The averages hardly move while the weights learn. Evaluations use the averages, and checkpoints have them.
TEST_F(StoreSettingsTest, AsynchronousWorkersEvaluateTheAverages) {
  const std::string store = "{name: kvstore, type: dist_async, max_staleness: 0}";
  const auto losses = [&](const std::string& name, const std::string& decay) {
    const json epoch =
        trained(name, 2, store, {"--set", "epochs=2", "--set", "dataset.limit=2000", "--set", "ema=" + decay});
    if (epoch.is_null()) return std::pair(0.0, 0.0);
    Command evaluation = {
        dptrain_binary(), "eval",  "--config", "lenet_ddp_2cpu", "--checkpoint", run(name).string(),      "--json",
        "--devices",      "cpu:0", "--set",    "threads=1",      "--set",        "dataset.test_limit=200"};
    const Finished finished = alone(evaluation);
    EXPECT_EQ(finished.exit, 0) << finished.err;
    const json of_checkpoint = json::parse(finished.out, nullptr, false);
    EXPECT_TRUE(of_checkpoint.is_object()) << finished.out;
    EXPECT_EQ(of_checkpoint["loss"], epoch["test"]["loss"]) << decay;
    return std::pair(epoch["train"]["loss"].get<double>(), epoch["test"]["loss"].get<double>());
  };
  const auto [train_at_once, at_once] = losses("at_once", "0");
  const auto [train_slowly, slowly] = losses("slowly", "0.9999999");
  EXPECT_LT(train_slowly, 2.1) << "the weights learn";
  EXPECT_NEAR(slowly, std::log(10), 0.05) << "that of the initial weights, which know nothing";
  EXPECT_LT(at_once, slowly - 0.2) << "those are the weights of the last step";
}

/// From a checkpoint within an epoch, one worker gives weights bit-identical to an uninterrupted run's. Several workers
/// see each sample of the epoch once.
TEST_F(StoreSettingsTest, AsynchronousWorkersGoOnWithinAnEpoch) {
  for (const size_t workers : {1u, 2u}) {
    SCOPED_TRACE(workers);
    const std::string name = std::to_string(workers), store = "{name: kvstore, type: dist_async, servers: 1}";
    Command settings = {"--set", "epochs=2",       "--set", "checkpoint.every_steps=3", "--set", "checkpoint.keep=10",
                        "--set", "optimizer=adam", "--set", "learning_rate=0.001",      "--set", "ema=0.9"};
    const json whole = trained("whole" + name, workers + 2, store, settings);
    ASSERT_FALSE(whole.is_null());
    settings.insert(settings.end(), {"--resume", (run("whole" + name) / "checkpoints" / "step-000003").string()});
    ASSERT_TRUE(std::filesystem::exists(settings.back())) << settings.back();
    const json resumed = trained("resumed" + name, workers + 2, store, settings);
    ASSERT_FALSE(resumed.is_null());
    EXPECT_EQ(resumed["step"], whole["step"]);
    EXPECT_EQ(resumed["train"]["samples"], 320);
    if (workers == 1) {
      EXPECT_EQ(resumed["weights_hash"], whole["weights_hash"]);
    }
  }
}

/// The comparison includes the optimizer's state and the averages, not only the weights.
TEST_F(StoreSettingsTest, AResumedTrainingHasTheOptimizersStateOfOneThatWasNotInterrupted) {
  struct Row {
    std::string name;
    std::string strategy;
    size_t processes;
  };
  for (const Row& row : {Row{"ddp", "ddp", 2}, Row{"sharded", "{name: ddp, shard_optimizer: true}", 2},
                         Row{"fsdp", "fsdp", 2}, Row{"inside", "{name: kvstore, type: dist_sync}", 2},
                         Row{"servers", "{name: kvstore, type: dist_sync, servers: 2}", 5}}) {
    SCOPED_TRACE(row.name);
    const auto optimizer_of = [&](const std::string& name) {
      return text_of(run(name) / "checkpoints" / "step-000010" / "optimizer.safetensors");
    };
    Command settings = {"--set", "epochs=2",
                        "--set", "optimizer=adamw",
                        "--set", "learning_rate=0.001",
                        "--set", "checkpoint.every_steps=3"};
    trained(row.name + "_whole", row.processes, row.strategy, settings);
    settings[1] = "epochs=1";
    trained(row.name, row.processes, row.strategy, settings);
    settings[1] = "epochs=2";
    settings.emplace_back("--resume");
    trained(row.name, row.processes, row.strategy, settings);
    ASSERT_FALSE(optimizer_of(row.name).empty());
    EXPECT_TRUE(optimizer_of(row.name) == optimizer_of(row.name + "_whole"));
  }
}

}  // namespace
}  // namespace dptrain::testing
