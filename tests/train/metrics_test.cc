#include "train/metrics.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "support/json_schema.h"

namespace dptrain::train {
namespace {

using nlohmann::json;

EpochMetrics sample_metrics() {
  EpochMetrics metrics;
  metrics.run = "a \"run\"";
  metrics.strategy = "ddp";
  metrics.epoch = 3;
  metrics.step = 12;
  metrics.world_size = 2;
  metrics.global_batch = 64;
  metrics.learning_rate = 0.1;
  metrics.train = {.score = {.outputs = {{.loss_sum = 10, .correct = 30, .counted = 40}}, .samples = 40}, .seconds = 2};
  metrics.test =
      Pass{.score = {.outputs = {{.loss_sum = 1, .correct = 1, .counted = 4}}, .samples = 4}, .seconds = 0.5};
  metrics.time = {.compute_s = 1, .exposed_comm_s = 0.5, .data_wait_s = 0.25, .optimizer_s = 0.125, .other_s = 0.125};
  metrics.comm_bytes = 5'000'000'000;
  metrics.collectives = 7;
  for (int rank = 0; rank < 2; ++rank)
    metrics.devices.push_back({.device = "cpu:1",
                               .host = "here",
                               .rank = rank,
                               .samples = 20,
                               .busy = 0.5,
                               .peak_bytes = 100 * (rank + 1),
                               .memory = {}});
  metrics.devices[1].memory[MemoryPurpose::optimizer] = 11;
  metrics.batch_norm = {.mode = parallel::BatchNormMode::average, .spread = 0.5};
  metrics.weights_hash = std::string(64, 'a');
  return metrics;
}

TEST(Metrics, SumsBecomeMeans) {
  const json line = json::parse(sample_metrics().json());
  EXPECT_EQ(line["train"]["loss"], 0.25);
  EXPECT_EQ(line["train"]["accuracy"], 0.75);
  EXPECT_EQ(line["train"]["samples_per_s"], 20);
  EXPECT_EQ(line["test"]["accuracy"], 0.25);
  EXPECT_EQ(line["comm"]["bytes"], 5'000'000'000);
  EXPECT_EQ(line["devices"][1]["memory"]["optimizer"], 11);
  EXPECT_EQ(line["run"], "a \"run\"");
  EXPECT_EQ(line["batch_norm"], json({{"mode", "average"}, {"spread", 0.5}}));
}

TEST(Metrics, ImbalanceIsTheLargestPeakOverTheSmallest) {
  EpochMetrics metrics = sample_metrics();
  EXPECT_EQ(metrics.memory_imbalance(), 2);
  metrics.devices.resize(1);
  EXPECT_EQ(metrics.memory_imbalance(), 1);
}

TEST(Metrics, OfGradientNoiseAreMeansOverTheSamples) {
  EpochMetrics metrics = sample_metrics();
  EXPECT_EQ(json::parse(metrics.json())["gradient_noise"], nullptr);
  metrics.train.score.noise = {.variance_sum = 12, .squared_norm_sum = 3, .samples = 4};
  EXPECT_EQ(json::parse(metrics.json())["gradient_noise"],
            json({{"scale", 4.0}, {"variance", 3.0}, {"squared_norm", 0.75}}));
  metrics.train.score.noise.squared_norm_sum = -3;
  EXPECT_EQ(json::parse(metrics.json())["gradient_noise"]["scale"], nullptr);
}

TEST(Metrics, AnEmptyPassHasNoRates) {
  const Pass pass;
  EXPECT_EQ(pass.samples_per_s(), 0);
  EXPECT_EQ(pass.score.mean_loss(), 0);
  EXPECT_EQ(pass.score.accuracy(), 0);
}

class MetricsSchemaTest : public ::testing::Test {
 protected:
  std::vector<std::string> violations(const json& line) const {
    return testing::schema_violations("metrics.schema.json", line);
  }
  json line_ = json::parse(sample_metrics().json());
};

TEST_F(MetricsSchemaTest, ALineOfAStoreFits) {
  EpochMetrics metrics = sample_metrics();
  metrics.strategy = "kvstore";
  metrics.store = parallel::StoreUse{.type = "device", .placement = "balanced", .bytes = {5, 7}};
  const json line = json::parse(metrics.json());
  EXPECT_EQ(line["kvstore"]["bytes"], (std::vector<int>{5, 7}));
  EXPECT_EQ(violations(line), std::vector<std::string>());
  metrics.store = parallel::StoreUse{.type = "local", .placement = "", .bytes = {12}};
  EXPECT_EQ(violations(json::parse(metrics.json())), std::vector<std::string>());
  EXPECT_EQ(json::parse(metrics.json())["kvstore"]["placement"], nullptr);
}

TEST_F(MetricsSchemaTest, ALineFits) {
  EXPECT_EQ(violations(line_), std::vector<std::string>());
  line_["test"] = nullptr;
  line_["batch_norm"]["spread"] = nullptr;
  EXPECT_EQ(violations(line_), std::vector<std::string>());
  line_["gradient_noise"] = {{"scale", nullptr}, {"variance", 1.5}, {"squared_norm", -0.5}};
  EXPECT_EQ(violations(line_), std::vector<std::string>());
}

TEST_F(MetricsSchemaTest, WhatIsWrongIsSeen) {
  const auto expect_violation = [&](const char* pointer, const json& value) {
    json line = line_;
    line[json::json_pointer(pointer)] = value;
    EXPECT_EQ(violations(line).size(), 1u) << pointer << " " << value;
  };
  expect_violation("/schema", 2);
  expect_violation("/epoch", 0);
  expect_violation("/step", 1.5);
  expect_violation("/strategy", "ring");
  expect_violation("/train/loss", nullptr);
  expect_violation("/time/data_wait_s", -1);
  expect_violation("/devices/0/memory/weights", -1);
  expect_violation("/devices/0/device", "gpu:0");
  expect_violation("/batch_norm/mode", "global");
  expect_violation("/batch_norm/spread", -1);
  expect_violation("/gradient_noise", 5);
  expect_violation("/weights_hash", "abc");
  expect_violation("/new_key", 1);
  json line = line_;
  line["devices"][1].erase("memory");
  EXPECT_EQ(violations(line), std::vector<std::string>({"/devices/1: no \"memory\""}));
}

}  // namespace
}  // namespace dptrain::train
