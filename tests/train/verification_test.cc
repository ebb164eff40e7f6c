// `verify`: correct strategies equal `single`, and planted faults are found where they are.
#include "train/verification.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "config/config_document.h"
#include "support/expect_error.h"
#include "train/verification_report.h"

namespace dptrain::train {
namespace {

using parallel::PlantedFault;

constexpr const char* kLeNet =
    "model: lenet\n"
    "dataset: {name: synthetic, samples: 64, test_samples: 8, shape: [1, 16, 16]}\n";
constexpr const char* kResidualNet =
    "model: {layers: [{conv: {channels: 8, kernel: 3, bias: false}}, batch_norm, relu, {residual: {layers: [{conv: "
    "{channels: 8, kernel: 3, padding: 1}}, batch_norm]}}, relu, global_avg_pool, {linear: classes}]}\n"
    "dataset: {name: synthetic, samples: 64, test_samples: 8, shape: [1, 12, 12]}\n";
constexpr const char* kSmallResNet =
    "model: {layers: [{conv: {channels: 8, kernel: 3, padding: 1, bias: false}}, batch_norm, relu, {residual: {name: "
    "layer1, layers: [{conv: {channels: 8, kernel: 3, padding: 1, bias: false}}, batch_norm, relu, {conv: {channels: "
    "8, "
    "kernel: 3, padding: 1, bias: false}}, batch_norm]}}, relu, {residual: {name: layer2, layers: [{conv: {channels: "
    "16, kernel: 3, stride: 2, padding: 1}}, batch_norm, relu, {conv: {channels: 16, kernel: 3, padding: 1, bias: "
    "false}}, batch_norm], shortcut: [{conv: {name: downsample, channels: 16, kernel: 1}}, {avg_pool: 2}, "
    "batch_norm]}}, "
    "relu, global_avg_pool, {linear: classes}]}\n"
    "dataset: {name: synthetic, samples: 64, test_samples: 8, shape: [1, 12, 12]}\n";
const std::vector<std::string> kFewSamples = {"batch_size=8"};
constexpr const char* kBertConfig =
    "model: {name: bert, vocab: 64, hidden: 32, layers: 2, heads: 2, seq: 16}\n"
    "dataset: {name: synthetic, samples: 32, test_samples: 8}\n";

ConfigNode config_of(const std::string& model, int devices, const std::vector<std::string>& overrides = {}) {
  ConfigNode config = parse_config(model +
                                       "threads: 1\n"
                                       "batch_size: 32\n"
                                       "learning_rate: 0.05\n"
                                       "optimizer: {name: sgd, momentum: 0.9}\n"
                                       "epochs: 1\n",
                                   "test.yaml");
  override_config(config, "devices='cpu:0-" + std::to_string(devices - 1) + "'");
  for (const auto& assignment : overrides) override_config(config, assignment);
  return config;
}

std::vector<VerifiedRow> verified(const ConfigNode& config, const Verification::Options& options = {}) {
  const VerificationPlan plan = plan_verification(config, "test");
  return Verification(plan, options).run();
}

const VerifiedRow& row_of(const std::vector<VerifiedRow>& rows, const std::string& name) {
  const auto found = std::ranges::find(rows, name, &VerifiedRow::name);
  EXPECT_NE(found, rows.end()) << "no row " << name;
  return found == rows.end() ? rows.front() : *found;
}

std::vector<std::string> names_with(const std::vector<VerifiedRow>& rows, Verdict verdict) {
  std::vector<std::string> names;
  for (const VerifiedRow& row : rows)
    if (row.verdict == verdict) names.push_back(row.name);
  return names;
}

/// The layers of a pass, in the order of the comparison.
std::vector<std::string> layers_of(const VerifiedRow& row, ComparedPass pass) {
  std::vector<std::string> names;
  for (const VerifiedLayer& layer : row.layers)
    if (layer.found.pass == pass) names.push_back(layer.found.layer);
  return names;
}

/// The first divergence of a row; its layer is empty where there is none.
LayerDifference first_divergence(const VerifiedRow& row) {
  const VerifiedLayer* layer = row.first_divergence();
  EXPECT_NE(layer, nullptr) << row.name << " comes out equal";
  return layer == nullptr ? LayerDifference{} : layer->found;
}

void expect_no_divergence(const std::vector<VerifiedRow>& rows) {
  EXPECT_EQ(VerificationReport{.rows = rows}.failures(), std::vector<std::string>());
}

TEST(Verification, LeNetOnTwoWorkers) {
  const auto rows = verified(config_of(kLeNet, 2));
  expect_no_divergence(rows);
  EXPECT_EQ(
      names_with(rows, Verdict::equal),
      (std::vector<std::string>{"data_parallel, gathered", "data_parallel, parallel", "ddp", "ddp, overlap: false",
                                "ddp, overlap: next_forward", "ddp, shard_optimizer", "fsdp", "fsdp, weights kept",
                                "kvstore, device", "kvstore, round_robin", "kvstore, local", "model_parallel, 1f1b",
                                "model_parallel, zero_bubble", "model_parallel, gpipe"}));
  EXPECT_EQ(row_of(rows, "hybrid").reason, "needs at least 4 devices, got 2");
  EXPECT_EQ(row_of(rows, "model_parallel, interleaved").reason,
            "the model has 3 stages, fewer than 4, 2 on each of 2 devices");
  for (const std::string& name : names_with(rows, Verdict::equal)) {
    const VerifiedRow& row = row_of(rows, name);
    EXPECT_EQ(layers_of(row, ComparedPass::forward), (std::vector<std::string>{"conv1", "conv2", "fc1"})) << name;
    EXPECT_EQ(layers_of(row, ComparedPass::backward),
              (std::vector<std::string>{"fc2.bias", "fc2.weight", "fc1.bias", "fc1.weight", "conv2.bias",
                                        "conv2.weight", "conv1.bias", "conv1.weight"}))
        << name;
    EXPECT_EQ(layers_of(row, ComparedPass::weights).size(), 8u) << name;
  }
}

TEST(Verification, AStoreOnServersIsComparedAsConfigured) {
  for (const char* type : {"dist_sync", "dist_device_sync", "dist_async"})
    for (const int devices : {2, 3}) {
      SCOPED_TRACE(std::string(type) + ", " + std::to_string(devices) + " devices");
      const auto rows = verified(config_of(
          kLeNet, devices, {std::string("strategy={name: kvstore, type: ") + type + "}", "batch_norm=local"}));
      expect_no_divergence(rows);
      const VerifiedRow& own = row_of(rows, "kvstore, as configured");
      EXPECT_EQ(own.verdict, Verdict::equal) << own.reason;
      EXPECT_EQ(layers_of(own, ComparedPass::backward).size(), 8u);
      EXPECT_EQ(layers_of(own, ComparedPass::weights).size(), 8u);
    }
}

/// Two devices have the sums of each part.
TEST(Verification, ReplicasOfShardedWeightsAreComparedOnce) {
  const ConfigNode config = config_of(kLeNet, 4, {"strategy={name: fsdp, replicas: 2}"});
  const auto rows = verified(config);
  expect_no_divergence(rows);
  const VerifiedRow& own = row_of(rows, "fsdp, as configured");
  EXPECT_EQ(own.verdict, Verdict::equal) << own.reason;
  EXPECT_EQ(layers_of(own, ComparedPass::backward).size(), 8u);
  const auto faulty = verified(config, {.planted = PlantedFault::bucket_left_out});
  EXPECT_EQ(row_of(faulty, "fsdp, as configured").verdict, Verdict::diverges);
}

/// Rows share batch statistics, with which it can't be measured.
TEST(Verification, MeasuresNoNoiseOfGradients) {
  for (const char* name : {"ddp", "fsdp"}) {
    const auto rows =
        verified(config_of(kLeNet, 2, {"strategy={name: " + std::string(name) + ", gradient_noise: true}"}));
    EXPECT_EQ(row_of(rows, std::string(name) + ", as configured").verdict, Verdict::equal);
  }
}

TEST(Verification, GradientsOfReplicasThatTrainByThemselvesDifferByDesign) {
  for (const char* strategy : {"local_sgd", "{name: local_sgd, period: 4}"}) {
    const auto rows = verified(config_of(kLeNet, 2, {std::string("strategy=") + strategy}));
    EXPECT_EQ(row_of(rows, "local_sgd, as configured").verdict, Verdict::differs_by_design);
    EXPECT_EQ(row_of(rows, "ddp").verdict, Verdict::equal);
  }
}

TEST(Verification, TwoStepsOnThreeWorkersWithUnevenParts) {
  const auto rows =
      verified(config_of(kLeNet, 3, {"accumulate=2", "optimizer=adam", "learning_rate=0.001"}), {.steps = 2});
  expect_no_divergence(rows);
  EXPECT_EQ(row_of(rows, "hybrid").verdict, Verdict::not_compared);
  const VerifiedRow& ddp = row_of(rows, "ddp");
  EXPECT_EQ(ddp.micro_batches, 2);
  EXPECT_EQ(layers_of(ddp, ComparedPass::backward).size(), 16u) << "of both steps";
}

TEST(Verification, BatchNormsOfAllStrategies) {
  const auto rows = verified(config_of(kResidualNet, 4));
  expect_no_divergence(rows);
  EXPECT_EQ(names_with(rows, Verdict::equal).size(), 15u) << "all, hybrid as well";
  const VerifiedRow& hybrid = row_of(rows, "hybrid");
  EXPECT_EQ(hybrid.micro_batches, 4) << "replicas share the statistics of each";
  EXPECT_EQ(layers_of(hybrid, ComparedPass::weights), layers_of(row_of(rows, "ddp"), ComparedPass::weights))
      << "running statistics, too";
  const VerifiedRow& local = row_of(rows, "ddp, batch_norm: local");
  EXPECT_EQ(local.verdict, Verdict::differs_by_design);
  EXPECT_EQ(first_divergence(local).pass, ComparedPass::forward);
}

TEST(Verification, BatchNormsOfPartsOfUnlikeSizes) {
  // 30 samples are 7 or 8 per micro-batch, of which replicas have 3 or 4.
  const auto rows = verified(config_of(kResidualNet, 4, {"batch_size=30", "batch_norm=sync"}));
  expect_no_divergence(rows);
  EXPECT_EQ(names_with(rows, Verdict::equal).size(), 15u) << "all, hybrid as well";
  EXPECT_TRUE(names_with(rows, Verdict::differs_by_design).empty()) << "sync is what is compared";
}

TEST(Verification, Bert) {
  const auto rows = verified(config_of(kBertConfig, 2, {"clip_norm=1"}));
  expect_no_divergence(rows);
  EXPECT_EQ(names_with(rows, Verdict::equal).size(), 13u) << "all but deferred updates, which know no norm";
}

TEST(Verification, TheConfigurationsOwnStrategyIsCompared) {
  const auto rows = verified(config_of(kLeNet, 2, {"strategy={name: model_parallel, micro_batches: 3}"}));
  expect_no_divergence(rows);
  const VerifiedRow& own = row_of(rows, "model_parallel, as configured");
  EXPECT_EQ(own.verdict, Verdict::equal);
  EXPECT_EQ(own.micro_batches, 3);
}

const std::vector<std::string> kCompressions = {"bf16", "fp16", "{name: powersgd, rank: 2}", "two_bit"};

std::vector<std::string> compressing(const std::string& compress) {
  return {"strategy={name: ddp, compress: " + compress + "}"};
}

TEST(Verification, CompressedGradientsAreWholeWithWhatIsKept) {
  for (const std::string& compress : kCompressions) {
    SCOPED_TRACE(compress);
    const auto rows = verified(config_of(kLeNet, 3, compressing(compress)), {.steps = 2});
    EXPECT_EQ(VerificationReport{.rows = rows}.failures(), std::vector<std::string>());
    const VerifiedRow& own = row_of(rows, "ddp, as configured");
    EXPECT_EQ(own.verdict, Verdict::differs_by_design);
    for (const VerifiedLayer& layer : own.layers)
      EXPECT_EQ(layer.by_design, layer.found.pass == ComparedPass::weights || layer.found.step == 2)
          << layer.found.layer;
  }
  const auto of_two_bits = verified(config_of(kLeNet, 3, compressing("two_bit")));
  EXPECT_EQ(first_divergence(row_of(of_two_bits, "ddp, as configured")).pass, ComparedPass::weights);
  EXPECT_EQ(
      row_of(verified(config_of(kLeNet, 2, {"strategy={name: ddp, compress: none}"})), "ddp, as configured").verdict,
      Verdict::equal);
}

TEST(Verification, ASplitIsKeptWhereBatchesAreSplit) {
  const auto rows = verified(config_of(kLeNet, 2, {"split=[0.7, 0.3]"}));
  expect_no_divergence(rows);
  EXPECT_EQ(names_with(rows, Verdict::equal).size(), 14u) << "pipelines, too, which every batch goes through whole";
}

TEST(Verification, ShardsHaveTheBitsOfShardsOnOneDevice) {
  const auto rows = verified(config_of(kLeNet, 2, {"shards=8", "threads=2"}), {.steps = 2});
  expect_no_divergence(rows);
  EXPECT_EQ(names_with(rows, Verdict::equal).size(), 14u + 1 + 8) << "without shards, single with them, and the others";
  EXPECT_EQ(row_of(rows, "single, shards: 8").shards, 0) << "is compared with single without";
  for (const VerifiedRow& row : rows) {
    if (row.shards == 0) continue;
    EXPECT_EQ(row.shards, 8) << row.name;
    EXPECT_EQ(layers_of(row, ComparedPass::forward).size(), 6u) << row.name << ": three stages of each step";
    for (const VerifiedLayer& layer : row.layers) EXPECT_EQ(layer.found.difference, 0) << row.name << layer.found.layer;
  }
}

TEST(Verification, ShardsOfBatchNormsDifferByDesign) {
  const auto rows = verified(config_of(kResidualNet, 2, {"shards=4"}));
  expect_no_divergence(rows);
  EXPECT_EQ(row_of(rows, "single, shards: 4").verdict, Verdict::differs_by_design) << "each has its own statistics";
  EXPECT_EQ(row_of(rows, "ddp, shards: 4").verdict, Verdict::equal);
}

TEST(Verification, OneDevice) {
  const auto rows = verified(config_of(kLeNet, 1));
  expect_no_divergence(rows);
  EXPECT_EQ(names_with(rows, Verdict::equal).size(), 11u);
  EXPECT_EQ(row_of(rows, "model_parallel, 1f1b").reason, "needs at least 2 devices, got 1");
}

TEST(Verification, SingleThatDivergesIsNothingToCompareWith) {
  const ConfigNode config = config_of(kLeNet, 2, {"learning_rate=1e30"});
  testing::expect_error(ExitCode::diverged, {"step", "diverged"}, [&] { verified(config, {.steps = 3}); });
}

// Rows that a fault leaves unchanged are equal; the affected rows name the layer at which it begins.

TEST(Verification, FindsGradientsDividedTwice) {
  const auto rows = verified(config_of(kLeNet, 4), {.planted = PlantedFault::divided_twice});
  EXPECT_EQ(names_with(rows, Verdict::equal), std::vector<std::string>());
  EXPECT_EQ(names_with(rows, Verdict::diverges).size(), 12u)
      << "all but pipelines of four stages, of which LeNet has 3";
  for (const std::string& name : names_with(rows, Verdict::diverges)) {
    SCOPED_TRACE(name);
    const VerifiedRow& row = row_of(rows, name);
    EXPECT_EQ(first_divergence(row).pass, ComparedPass::backward);
    EXPECT_EQ(first_divergence(row).layer, "fc2.bias") << "the parameter nearest to the loss";
    for (const VerifiedLayer& layer : row.layers)
      if (layer.found.pass == ComparedPass::backward) {
        EXPECT_NEAR(layer.found.difference, 0.75, 1e-4) << layer.found.layer << ": a quarter on four devices";
      }
  }
  const auto of_pipelines = verified(config_of(kLeNet, 2), {.planted = PlantedFault::divided_twice});
  for (const char* name : {"model_parallel, 1f1b", "model_parallel, zero_bubble", "model_parallel, gpipe"})
    EXPECT_EQ(first_divergence(row_of(of_pipelines, name)).layer, "fc2.bias") << name;
}

TEST(Verification, FindsGradientsOfShardsDividedTwice) {
  const auto rows = verified(config_of(kLeNet, 2, {"shards=8"}), {.planted = PlantedFault::divided_twice});
  int with_shards = 0;
  for (const VerifiedRow& row : rows) {
    if (row.shards == 0) continue;
    ++with_shards;
    EXPECT_EQ(row.verdict, Verdict::diverges) << row.name;
    EXPECT_EQ(first_divergence(row).layer, "fc2.bias") << row.name;
  }
  EXPECT_EQ(with_shards, 8);
  EXPECT_EQ(row_of(rows, "single, shards: 8").verdict, Verdict::equal) << "one device divides by one";
}

TEST(Verification, FindsABucketThatIsNeverReduced) {
  using Layers = std::set<std::string>;
  const auto rows = verified(config_of(kLeNet, 4), {.planted = PlantedFault::bucket_left_out});
  // Only the parameters that aren't summed differ.
  const Layers of_bucket = {"conv1.bias", "conv1.weight"}, of_key = {"conv1.weight"};
  const Layers all = {"fc2.bias",   "fc2.weight",   "fc1.bias",   "fc1.weight",
                      "conv2.bias", "conv2.weight", "conv1.bias", "conv1.weight"};
  const std::map<std::string, Layers> expected = {{"data_parallel, gathered", all},
                                                  {"data_parallel, parallel", all},
                                                  {"ddp", of_bucket},
                                                  {"ddp, overlap: false", of_bucket},
                                                  {"ddp, shard_optimizer", of_bucket},
                                                  {"fsdp", of_bucket},
                                                  {"fsdp, weights kept", of_bucket},
                                                  {"kvstore, device", of_key},
                                                  {"ddp, overlap: next_forward", of_bucket},
                                                  {"kvstore, round_robin", of_key},
                                                  {"kvstore, local", of_key},
                                                  {"hybrid", of_bucket}};
  EXPECT_EQ(names_with(rows, Verdict::diverges).size(), expected.size());
  for (const auto& [name, layers] : expected) {
    SCOPED_TRACE(name);
    const VerifiedRow& row = row_of(rows, name);
    EXPECT_EQ(first_divergence(row).pass, ComparedPass::backward);
    EXPECT_TRUE(layers.contains(first_divergence(row).layer)) << first_divergence(row).layer;
    Layers diverging;
    for (const VerifiedLayer& layer : row.layers)
      if (layer.found.pass == ComparedPass::backward && layer.diverges()) diverging.insert(layer.found.layer);
    EXPECT_EQ(diverging, layers);
  }
  const auto of_pipelines = verified(config_of(kLeNet, 2), {.planted = PlantedFault::bucket_left_out});
  EXPECT_EQ(row_of(of_pipelines, "model_parallel, 1f1b").verdict, Verdict::equal) << "one replica has no sums";
}

TEST(Verification, FindsFaultsOfCompressedGradients) {
  const std::map<PlantedFault, std::string> expected = {{PlantedFault::bucket_left_out, "conv1.bias"},
                                                        {PlantedFault::divided_twice, "fc2.bias"}};
  for (const std::string& compress : kCompressions)
    for (const auto& [fault, layer] : expected) {
      SCOPED_TRACE(compress + ", " + layer);
      const auto rows = verified(config_of(kLeNet, 3, compressing(compress)), {.planted = fault});
      const VerifiedRow& own = row_of(rows, "ddp, as configured");
      EXPECT_EQ(own.verdict, Verdict::diverges);
      EXPECT_EQ(first_divergence(own).pass, ComparedPass::backward);
      EXPECT_EQ(first_divergence(own).layer, layer);
    }
}

TEST(Verification, FindsLocalStatistics) {
  const auto rows = verified(config_of(kResidualNet, 4), {.planted = PlantedFault::local_statistics});
  EXPECT_EQ(names_with(rows, Verdict::diverges).size(), 12u) << "all but pipelines, which see whole micro-batches";
  EXPECT_EQ(row_of(rows, "hybrid").verdict, Verdict::diverges) << "replicas share them";
  for (const std::string& name : names_with(rows, Verdict::diverges)) {
    const LayerDifference first = first_divergence(row_of(rows, name));
    EXPECT_EQ(first.pass, ComparedPass::forward) << name;
    EXPECT_EQ(first.layer, layers_of(rows.front(), ComparedPass::forward)[1]) << name << ": the first batch norm";
  }
}

TEST(Verification, FindsABoundaryThatDropsTheGradient) {
  const auto cut = config_of(kLeNet, 2, {"strategy={name: model_parallel, stages: [conv1, fc1]}"});
  const auto rows = verified(cut, {.planted = PlantedFault::boundary_gradient});
  EXPECT_EQ(names_with(rows, Verdict::diverges),
            (std::vector<std::string>{"model_parallel, 1f1b", "model_parallel, zero_bubble", "model_parallel, gpipe",
                                      "model_parallel, as configured"}));
  const LayerDifference first = first_divergence(row_of(rows, "model_parallel, as configured"));
  EXPECT_EQ(first.pass, ComparedPass::backward);
  EXPECT_EQ(first.layer, "conv2.bias") << "the last parameter before the boundary";
  EXPECT_EQ(first.difference, 1) << "nothing is left of it";
  const auto of_four = verified(config_of(kLeNet, 4), {.planted = PlantedFault::boundary_gradient});
  EXPECT_EQ(names_with(of_four, Verdict::diverges), std::vector<std::string>{"hybrid"});
  EXPECT_EQ(first_divergence(row_of(of_four, "hybrid")).difference, 1) << "nothing is left of it";
}

/// The net of configs/toy_model_parallel_2cpu.yaml: its first stage, `flatten`, has no parameter whose gradient could
/// be missing.
TEST(Verification, FindsABoundaryBehindAStageWithoutParameters) {
  const char* toy =
      "model: {layers: [flatten, linear: 10, relu, linear: classes]}\n"
      "dataset: {name: synthetic, samples: 64, test_samples: 8, classes: 5, shape: [10, 1, 1]}\n";
  expect_no_divergence(verified(config_of(toy, 2)));
  const auto rows = verified(config_of(toy, 2), {.planted = PlantedFault::boundary_gradient});
  EXPECT_EQ(names_with(rows, Verdict::diverges),
            (std::vector<std::string>{"model_parallel, 1f1b", "model_parallel, zero_bubble", "model_parallel, gpipe"}));
  EXPECT_EQ(first_divergence(row_of(rows, "model_parallel, 1f1b")).layer, "fc1.bias");
}

// A small ResNet with few samples, whose batch norms and ReLUs amplify rounding errors.

TEST(Verification, AResNetOfFewSamplesIsEqual) {
  const auto rows = verified(config_of(kSmallResNet, 2, kFewSamples));
  expect_no_divergence(rows);
  EXPECT_EQ(names_with(rows, Verdict::equal).size(), 15u);
  std::set<std::string> noise;
  for (const VerifiedLayer& layer : row_of(rows, "ddp").all_noise())
    if (layer.found.pass == ComparedPass::backward) noise.insert(layer.found.layer);
  EXPECT_EQ(noise, (std::set<std::string>{"layer2.downsample.bias"}))
      << "the bias that a batch norm behind a pool takes away again; right before one it has no gradient";
  for (const VerifiedRow& row : rows)
    for (const VerifiedLayer& layer : row.layers)
      if (!layer.allowed.all_noise) {
        EXPECT_LE(layer.allowed.bound, 0.5) << row.name << ": " << layer.found.layer;
      }
}

TEST(Verification, FindsABucketOfAResNetThatIsNeverReduced) {
  const auto rows = verified(config_of(kSmallResNet, 2, kFewSamples), {.planted = PlantedFault::bucket_left_out});
  EXPECT_EQ(
      names_with(rows, Verdict::diverges),
      (std::vector<std::string>{"data_parallel, gathered", "data_parallel, parallel", "ddp", "ddp, overlap: false",
                                "ddp, overlap: next_forward", "ddp, shard_optimizer", "fsdp", "fsdp, weights kept",
                                "kvstore, device", "kvstore, round_robin", "kvstore, local"}));
  EXPECT_EQ(first_divergence(row_of(rows, "ddp")).pass, ComparedPass::backward);
}

TEST(Verification, FindsABoundaryOfAResNetThatDropsTheGradient) {
  const auto rows = verified(config_of(kSmallResNet, 2, kFewSamples), {.planted = PlantedFault::boundary_gradient});
  EXPECT_EQ(names_with(rows, Verdict::diverges),
            (std::vector<std::string>{"model_parallel, 1f1b", "model_parallel, zero_bubble",
                                      "model_parallel, interleaved", "model_parallel, gpipe"}));
  const VerifiedRow& pipeline = row_of(rows, "model_parallel, 1f1b");
  EXPECT_EQ(first_divergence(pipeline).pass, ComparedPass::backward);
  EXPECT_EQ(first_divergence(pipeline).difference, 1) << "nothing is left of it";
  for (const VerifiedLayer& layer : pipeline.layers)
    if (layer.found.pass == ComparedPass::backward && layer.found.difference == 1) {
      EXPECT_TRUE(layer.diverges() || layer.allowed.all_noise) << layer.found.layer;
    }
}

TEST(RelativeDifference, IsOfNorms) {
  EXPECT_EQ(relative_difference(std::vector<float>{3, 4}, std::vector<float>{3, 4}), 0);
  EXPECT_DOUBLE_EQ(relative_difference(std::vector<float>{3, 9}, std::vector<float>{3, 4}), 1);
  EXPECT_EQ(relative_difference(std::vector<float>{0, 0}, std::vector<float>{0, 0}), 0);
  EXPECT_EQ(relative_difference(std::vector<float>{0, 1e-20F}, std::vector<float>{0, 0}), 1) << "expected to be zero";
  EXPECT_EQ(relative_difference(std::vector<float>{1}, std::vector<float>{1, 1}), 1) << "another shape";
  EXPECT_TRUE(std::isnan(relative_difference(std::vector<float>{NAN}, std::vector<float>{1})));
}

}  // namespace
}  // namespace dptrain::train
