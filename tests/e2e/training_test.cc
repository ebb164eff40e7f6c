// Strategies through the program: equal weights, equal scores, every sample once, whatever the devices.
#include <numeric>

#include "e2e/command_fixture.h"
#include "support/source_tree.h"

namespace dptrain {
namespace {

using testing::Arguments;

class TrainingTest : public testing::CommandTest {};

TEST_F(TrainingTest, StrategiesAndRepeatsEndWithTheSameWeights) {
  for (const char* devices : {"cpu:0-1", "cpu:0-2", "[cpu:0, cpu:0]"}) {
    SCOPED_TRACE(devices);
    const std::string list = std::string("devices=") + devices;
    train("ddp", {list});
    const std::string hash = last_metrics("ddp")["weights_hash"];
    EXPECT_EQ(this->hash("ddp"), hash);
    train("data_parallel", {list, "strategy=data_parallel"});
    EXPECT_EQ(last_metrics("data_parallel")["weights_hash"], hash);
    train("kvstore", {list, "strategy=kvstore"});
    EXPECT_EQ(last_metrics("kvstore")["weights_hash"], hash);
    train("again", {list});
    EXPECT_EQ(last_metrics("again")["weights_hash"], hash);
    EXPECT_EQ(last_metrics("again")["test"]["loss"], last_metrics("ddp")["test"]["loss"]);
    train("other", {list, "seed=1"});
    EXPECT_NE(last_metrics("other")["weights_hash"], hash);
    for (const char* run : {"ddp", "data_parallel", "kvstore", "again", "other"})
      std::filesystem::remove_all(path(run));
  }
}

TEST_F(TrainingTest, AStoreTellsWhatItHolds) {
  for (const char* type : {"device", "local"}) {
    const auto finished = run({"--config", testing::source_file("configs/lenet_kvstore_2cpu.yaml"), "--set", "steps=4",
                               "--set", "epochs=", "--set", std::string("strategy.type=") + type, "--out", type});
    ASSERT_EQ(finished.exit, 0) << finished.err;
    const auto store = last_metrics(type)["kvstore"];
    EXPECT_EQ(store["type"], type);
    EXPECT_EQ(store["bytes"].size(), type == std::string("device") ? 2 : 1);
    EXPECT_GT(store["bytes"][0], 0);
  }
  EXPECT_EQ(hash("device"), hash("local"));
  EXPECT_EQ(run({"--config", "local/config.yaml", "--out", "again"}).exit, 0) << "a resolved configuration is one";
  EXPECT_EQ(hash("again"), hash("local"));
}

TEST_F(TrainingTest, NetsOfLayersEndWithTheWeightsOfTheBuiltInOnes) {
  const auto trained = [&](const char* config, const Arguments& overrides) {
    Arguments arguments = {"--config", testing::source_file(std::string("configs/") + config), "--out", "run",
                           "--quiet"};
    for (const auto& assignment : overrides) arguments.insert(arguments.end(), {"--set", assignment});
    EXPECT_EQ(run(arguments).exit, 0) << config;
    const std::string weights = hash("run");
    std::filesystem::remove_all(path("run"));
    return weights;
  };
  for (const char* devices : {"[cpu:0]", "[cpu:0, cpu:1]"}) {
    const std::string listed = std::string("devices=") + devices;
    const Arguments lenet = {listed,          "steps=5",           "epochs=", "optimizer={name: sgd, momentum: 0.9}",
                             "batch_size=64", "learning_rate=0.05"};
    EXPECT_EQ(trained("lenet_layers_1cpu.yaml", lenet), trained("lenet_1cpu.yaml", lenet)) << devices;
    const Arguments resnet = {listed, "steps=2", "epochs=", "batch_size=8", "eval_every=0", "learning_rate=0.05",
                              "init={normal: 0.01}",
                              // Fashion-MNIST isn't on every machine.
                              "dataset={name: synthetic, samples: 64, test_samples: 8}"};
    EXPECT_EQ(trained("resnet18_layers_1cpu.yaml", resnet), trained("resnet18_1gpu.yaml", resnet)) << devices;
  }
}

TEST_F(TrainingTest, SingleIsDdpOnOneDevice) {
  train("single", {"devices=cpu:0", "strategy=single"});
  train("ddp", {"devices=cpu:0", "strategy=ddp"});
  EXPECT_EQ(hash("single"), hash("ddp"));
}

TEST_F(TrainingTest, PipelinesEndWithTheWeightsOfOneDeviceAndOfReplicas) {
  train("single", {"devices=cpu:0", "strategy=single", "accumulate=4"});
  for (const char* options : {"stages: [1, 2]", "stages: [conv1, fc1], schedule: gpipe",
                              "stages: [conv1, fc1], schedule: zero_bubble", "stages: auto"}) {
    SCOPED_TRACE(options);
    train("cut", {std::string("strategy={name: model_parallel, micro_batches: 4, ") + options + "}"});
    EXPECT_EQ(hash("cut"), hash("single"));
    EXPECT_EQ(last_metrics("cut")["test"]["loss"], last_metrics("single")["test"]["loss"]);
    std::filesystem::remove_all(path("cut"));
  }
  train("ddp", {"accumulate=4"});
  train("hybrid", {"devices=cpu:0-3", "strategy={name: hybrid, micro_batches: 4}"});
  EXPECT_EQ(hash("hybrid"), hash("ddp"));
  EXPECT_EQ(last_metrics("hybrid")["test"]["loss"], last_metrics("ddp")["test"]["loss"]);
}

TEST_F(TrainingTest, ConfigurationsOfPipelinesTrain) {
  for (const char* name : {"lenet_model_parallel_2cpu", "lenet_hybrid_4cpu", "toy_model_parallel_2cpu"}) {
    SCOPED_TRACE(name);
    const testing::Finished finished =
        run({"--config", testing::source_file(std::string("configs/") + name + ".yaml"), "--set", "threads=1", "--set",
             "epochs=", "--set", "steps=4", "--set", "eval_every=0", "--out", name, "--progress", "none"});
    EXPECT_EQ(finished.exit, 0) << finished.err;
    EXPECT_EQ(last_metrics(name)["step"], 4);
  }
}

TEST_F(TrainingTest, AnEpochHasEverySampleOnce) {
  struct Case {
    const char* devices;
    const char* batch;
  };
  for (const Case& one :
       {Case{"cpu:0", "512"}, Case{"cpu:0-1", "97"}, Case{"cpu:0-2", "64"}, Case{"cpu:0-2", "8000"}}) {
    SCOPED_TRACE(::testing::Message() << one.devices << ", batch " << one.batch);
    const std::string out = std::string("run") + one.devices + one.batch;
    train(out, {"dataset={name: mnist}", std::string("devices=") + one.devices,
                "strategy=", std::string("batch_size=") + one.batch});
    const auto metrics = last_metrics(out);
    EXPECT_EQ(metrics["train"]["samples"], 8000);
    EXPECT_EQ(metrics["test"]["samples"], 2000);
    int64_t samples = 0;
    for (const auto& device : metrics["devices"]) samples += device["samples"].get<int64_t>();
    EXPECT_EQ(samples, 8000);
    EXPECT_EQ(metrics["step"], (8000 + std::stoi(one.batch) - 1) / std::stoi(one.batch));
  }
}

TEST_F(TrainingTest, AnEpochHasEverySampleOnceUnderEveryStrategy) {
  const std::vector<testing::Arguments> ways = {{"strategy=data_parallel"},
                                                {"strategy={name: data_parallel, criterion: parallel}"},
                                                {"strategy={name: ddp, shard_optimizer: true}"},
                                                {"strategy=fsdp"},
                                                {"strategy=kvstore"},
                                                {"strategy={name: kvstore, type: local}"},
                                                {"strategy=local_sgd"},
                                                {"strategy=model_parallel"},
                                                {"strategy=hybrid", "devices=cpu:0-3"},
                                                {"split=[0.8, 0.2]"},
                                                {"split=[1, 0]"},
                                                {"split=auto"},
                                                {"accumulate=3"},
                                                {"shards=8"}};
  for (size_t i = 0; i < ways.size(); ++i) {
    SCOPED_TRACE(ways[i][0]);
    // Ten batches, and a last one of 33 samples; no number of devices or micro-batches divides them.
    testing::Arguments overrides = {"dataset={name: mnist, limit: 1003, test_limit: 20}", "batch_size=97"};
    overrides.insert(overrides.end(), ways[i].begin(), ways[i].end());
    const std::string out = "run" + std::to_string(i);
    train(out, overrides);
    const auto metrics = last_metrics(out);
    EXPECT_EQ(metrics["train"]["samples"], 1003);
    EXPECT_EQ(metrics["step"], 11);
    int64_t samples = 0;
    for (const auto& device : metrics["devices"]) samples += device["samples"].get<int64_t>();
    EXPECT_EQ(samples, 1003);
  }
}

TEST_F(TrainingTest, FashionMnistHasSixtyThousand) {
  if (!std::filesystem::exists("/usr/share/datasets/fashion-mnist"))
    GTEST_SKIP() << "Debian's package dataset-fashion-mnist is not installed";
  train("run", {"dataset={name: fashion_mnist, test_limit: 500}", "devices=cpu:0-2", "batch_size=250"});
  const auto metrics = last_metrics("run");
  EXPECT_EQ(metrics["train"]["samples"], 60000);
  EXPECT_EQ(metrics["step"], 240);
  for (const auto& device : metrics["devices"]) EXPECT_NEAR(device["samples"].get<double>(), 20000, 240);
  EXPECT_GT(metrics["test"]["accuracy"], 0.5);
}

TEST_F(TrainingTest, NetsWithBatchNormTrainWithTheSameWeightsUnderBothStrategies) {
  for (const std::string model : {"resnet18", "{name: pyramidnet, alpha: 7, depth: 1, blocks: 1}"}) {
    SCOPED_TRACE(model);
    const auto with = [&](const std::string& strategy) {
      train(strategy, {"model=" + model, "dataset={name: mnist, limit: 12, test_limit: 70}", "batch_size=6",
                       "strategy=" + strategy});
      const auto metrics = last_metrics(strategy);
      std::filesystem::remove_all(path(strategy));
      return metrics;
    };
    const auto ddp = with("ddp"), data_parallel = with("data_parallel");
    EXPECT_EQ(ddp["test"]["loss"], data_parallel["test"]["loss"]);
    EXPECT_EQ(ddp["weights_hash"], data_parallel["weights_hash"]);
  }
}

TEST_F(TrainingTest, SynchronizedBatchNormsLearnWhatOneDeviceDoes) {
  const auto with = [&](const std::string& out, const testing::Arguments& more) {
    testing::Arguments overrides = {
        "model={layers: [conv: {channels: 8, kernel: 5, stride: 3}, batch_norm, relu, "
        "global_avg_pool, linear: classes]}",
        "dataset.limit=90", "batch_size=22", "log_steps=true"};
    overrides.insert(overrides.end(), more.begin(), more.end());
    train(out, overrides);
    return last_metrics(out);
  };
  const auto single = with("single", {"devices=cpu:0", "strategy=single"});
  const auto sync = with("sync", {"devices=cpu:0-2", "batch_norm=sync"}), local = with("local", {"devices=cpu:0-2"});
  // There are five steps, and the last has two samples for three devices.
  const auto expected = json_lines("single/steps.jsonl"), steps = json_lines("sync/steps.jsonl");
  ASSERT_EQ(steps.size(), 5u);
  for (size_t i = 0; i < steps.size(); ++i)
    EXPECT_NEAR(steps[i]["loss"].get<double>(), expected[i]["loss"].get<double>(), 1e-5) << "step " << i + 1;
  EXPECT_NEAR(sync["test"]["loss"].get<double>(), single["test"]["loss"].get<double>(), 1e-4);
  EXPECT_EQ(sync["batch_norm"], nlohmann::json({{"mode", "sync"}, {"spread", 0.0}}));
  EXPECT_EQ(single["batch_norm"], nlohmann::json({{"mode", "local"}, {"spread", nullptr}}));
  EXPECT_GT(local["batch_norm"]["spread"], 0.0);
  // Replicas of a pipeline compute what ddp's devices compute.
  const auto hybrid = with(
      "hybrid", {"devices=cpu:0-3", "batch_norm=sync", "strategy={name: hybrid, stages: [2, 2], micro_batches: 4}"});
  const auto ddp = with("ddp", {"devices=cpu:0-1", "batch_norm=sync", "accumulate=4"});
  EXPECT_EQ(hybrid["weights_hash"], ddp["weights_hash"]);
  EXPECT_EQ(hybrid["batch_norm"], sync["batch_norm"]);
  for (const auto& metrics : {single, sync, local, hybrid})
    EXPECT_EQ(violations("metrics.schema.json", metrics), std::vector<std::string>());
}

TEST_F(TrainingTest, ItsOwnConfigurationGivesTheSameRun) {
  train("run", {"strategy.bucket_mb=0.1", "dataset.limit=100", "threads=", "seed=7"});
  const testing::Finished again = run({"--config", "run/config.yaml", "--out", "again"});
  EXPECT_EQ(again.exit, 0) << again.err;
  EXPECT_EQ(text("run/config.yaml"), text("again/config.yaml"));
  EXPECT_EQ(hash("run"), hash("again"));
  EXPECT_EQ(json_of("run/summary.json")["config_hash"], json_of("again/summary.json")["config_hash"]);
}

TEST_F(TrainingTest, FlagsOverrideTheFile) {
  const testing::Finished finished = run({"train", "--config", "digits.yaml", "--set", "dataset.limit=90", "--set",
                                          "batch_size=30", "--devices", "cpu:4-5,cpu:4", "--set", "name=mine"});
  ASSERT_EQ(finished.exit, 0) << finished.err;
  const auto metrics = last_metrics("runs/mine");
  EXPECT_EQ(metrics["run"], "mine");
  EXPECT_EQ(metrics["step"], 3);
  EXPECT_EQ(metrics["world_size"], 3);
  EXPECT_EQ(metrics["global_batch"], 30);
  EXPECT_EQ(metrics["devices"][2]["device"], "cpu:4");
}

TEST_F(TrainingTest, OverridesReachIntoANetOfLayers) {
  const std::string net = "model={layers: [flatten, linear: 8, relu, dropout: 0.5, linear: classes]}";
  train("whole", {"model={layers: [flatten, linear: 16, tanh, linear: classes]}"});
  train("parts", {net, "model.layers[1].linear.features=16", "model.layers[2]=tanh", "model.layers[3]="});
  EXPECT_EQ(hash("parts"), hash("whole"));
  EXPECT_EQ(json_of("parts/summary.json")["config_hash"], json_of("whole/summary.json")["config_hash"]);
  expect_refused(training("run", {net, "model.layers[2].dropout=0.3"}), 78,
                 {"--set: model.layers[2].dropout", "got 'relu'"});
  expect_refused(training("run", {net, "model.layers[3].dropout=2"}), 78,
                 {"--set: model.layers[3].dropout.probability", "got 2"});
  expect_refused(training("run", {net, "model.layers[5]="}), 78, {"--set: model.layers[5]", "got [5]"});
}

TEST_F(TrainingTest, TheRunIsNamedAfterTheFile) {
  ASSERT_EQ(run({"--config", "digits.yaml", "--set", "dataset.limit=64"}).exit, 0);
  EXPECT_EQ(last_metrics("runs/digits")["run"], "digits");
}

/// The accuracy that its configuration promises, in the first six of its epochs. Runs alone: ten seconds of the whole
/// machine.
TEST(LongTrainingTest, ASmallPyramidNetLearns) {
  const testing::ScratchFolder folder;
  const testing::Finished finished =
      testing::Process({.command = {testing::dptrain_binary(), "--config",
                                    testing::source_file("configs/pyramidnet_small_1cpu.yaml"), "--out", "run",
                                    "--json", "--set", "eval_every=0", "--set", "epochs=6"},
                        .folder = folder.path(),
                        .out = {},
                        .err = {}})
          .wait();
  ASSERT_EQ(finished.exit, 0) << finished.err;
  const auto lines = testing::lines_of(finished.out);
  ASSERT_EQ(lines.size(), 6u);
  EXPECT_GT(nlohmann::json::parse(lines.back())["train"]["accuracy"], 0.9);
}

/// The results that its configuration promises. Runs alone: half a minute of the whole machine.
TEST(LongTrainingTest, ASmallBertLearnsTheBible) {
  const testing::ScratchFolder folder;
  const testing::Finished finished =
      testing::Process({.command = {testing::dptrain_binary(), "--config",
                                    testing::source_file("configs/bert_small_1cpu.yaml"), "--out", "run", "--quiet"},
                        .folder = folder.path(),
                        .out = {},
                        .err = {}})
          .wait();
  ASSERT_EQ(finished.exit, 0) << finished.err;
  std::vector<double> losses;
  for (const std::string& line : testing::lines_of(testing::text_of(folder.path() / "run" / "steps.jsonl")))
    losses.push_back(nlohmann::json::parse(line)["mlm_loss"]);
  ASSERT_EQ(losses.size(), 300u);
  EXPECT_GT(losses.front(), 8);
  EXPECT_LT(std::accumulate(losses.end() - 10, losses.end(), 0.) / 10, 5.8) << "the mean of steps 291 to 300";
}

/// The accuracy that the quick start promises. Runs alone: half a minute of the whole machine.
TEST(LongTrainingTest, TwoWorkersLearnTheDigitsWithAnySeed) {
  const testing::ScratchFolder folder;
  for (const char* seed : {"0", "1", "2"}) {
    const testing::Finished finished =
        testing::Process(
            {.command = {testing::dptrain_binary(), "--config", testing::source_file("configs/lenet_ddp_2cpu.yaml"),
                         "--out", seed, "--json", "--set", std::string("seed=") + seed},
             .folder = folder.path(),
             .out = {},
             .err = {}})
            .wait();
    ASSERT_EQ(finished.exit, 0) << finished.err;
    const auto lines = testing::lines_of(finished.out);
    ASSERT_EQ(lines.size(), 10u);
    EXPECT_GE(nlohmann::json::parse(lines.back())["test"]["accuracy"], 0.97) << "seed " << seed;
  }
}

}  // namespace
}  // namespace dptrain
