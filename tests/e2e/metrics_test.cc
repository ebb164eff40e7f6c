// metrics.jsonl, steps.jsonl and summary.json: the files that other programs read.
#include "e2e/command_fixture.h"

namespace dptrain {
namespace {

using nlohmann::json;

class MetricsTest : public testing::CommandTest {
 protected:
  static void expect_consistent(const json& line) {
    EXPECT_EQ(violations("metrics.schema.json", line), std::vector<std::string>());
    const double seconds = line["train"]["seconds"];
    double sum = 0;
    for (const auto& [key, share] : line["time"].items()) {
      sum += share.get<double>();
      EXPECT_GE(share.get<double>(), -1e-6) << key;
    }
    EXPECT_NEAR(sum, seconds, 1e-6);
    EXPECT_NEAR(line["train"]["samples_per_s"].get<double>(), line["train"]["samples"].get<double>() / seconds, 1e-6);
    int64_t samples = 0;
    double least = 1e300, most = 0;
    for (const auto& device : line["devices"]) {
      samples += device["samples"].get<int64_t>();
      const double peak = device["peak_bytes"];
      least = std::min(least, peak);
      most = std::max(most, peak);
      double held = 0;
      for (const auto& [purpose, bytes] : device["memory"].items()) held += bytes.get<double>();
      EXPECT_EQ(held, peak);
      EXPECT_LE(device["busy"], 1.0);
    }
    EXPECT_EQ(samples, line["train"]["samples"]);
    EXPECT_EQ(line["devices"].size(), line["world_size"]);
    EXPECT_DOUBLE_EQ(line["memory_imbalance"], most / least);
  }
};

TEST_F(MetricsTest, EveryLineFitsTheSchemaAndAddsUp) {
  for (const char* strategy : {"ddp", "data_parallel"}) {
    SCOPED_TRACE(strategy);
    train(strategy,
          {std::string("strategy=") + strategy, "epochs=3", "eval_every=2", "devices=cpu:0-2", "batch_size=50"});
    const auto lines = json_lines(std::string(strategy) + "/metrics.jsonl");
    ASSERT_EQ(lines.size(), 3u);
    for (size_t i = 0; i < 3; ++i) {
      expect_consistent(lines[i]);
      EXPECT_EQ(lines[i]["epoch"], i + 1);
      EXPECT_EQ(lines[i]["step"], 7 * (i + 1));
      EXPECT_EQ(lines[i]["strategy"], strategy);
      EXPECT_EQ(lines[i]["test"].is_null(), i != 1) << "every second epoch is evaluated";
    }
  }
}

TEST_F(MetricsTest, PipelinesTellOfTheirStagesAndBubble) {
  for (const std::string strategy : {"{name: model_parallel, stages: [conv1, fc1], micro_batches: 3}",
                                     "{name: hybrid, stages: [2, 1], micro_batches: 3, schedule: zero_bubble}"}) {
    SCOPED_TRACE(strategy);
    const bool hybrid = strategy.starts_with("{name: hybrid");
    train("run", {"strategy=" + strategy, hybrid ? "devices=cpu:0-3" : "devices=cpu:0-1", "accumulate=2"});
    const json line = last_metrics("run");
    expect_consistent(line);
    const json& pipeline = line["pipeline"];
    EXPECT_EQ(pipeline["stages"], json::parse(R"([["conv1", "conv2"], ["fc1"]])"));
    EXPECT_EQ(pipeline["stages_per_device"], 1);
    EXPECT_EQ(pipeline["micro_batches"], 6);
    EXPECT_EQ(pipeline["schedule"], hybrid ? "zero_bubble" : "1f1b");
    EXPECT_GT(pipeline["predicted_bubble"], 0);
    EXPECT_GT(pipeline["bubble"], 0);
    EXPECT_EQ(json_of("run/summary.json")["final"]["pipeline"], pipeline);
    std::filesystem::remove_all(path("run"));
  }
  train("around", {"model={layers: [flatten, linear: 16, relu, linear: 16, relu, linear: 16, relu, linear: classes]}",
                   "strategy={name: model_parallel, stages: [2, 1, 1, 1], schedule: interleaved}"});
  expect_consistent(last_metrics("around"));
  const json pipeline = last_metrics("around")["pipeline"];
  EXPECT_EQ(pipeline["stages"], json::parse(R"([["flatten1", "fc1"], ["fc2"], ["fc3"], ["fc4"]])"));
  EXPECT_EQ(pipeline["stages_per_device"], 2);
  EXPECT_EQ(pipeline["micro_batches"], 4) << "two a device";
  train("ddp");
  EXPECT_EQ(last_metrics("ddp")["pipeline"], nullptr);
}

TEST_F(MetricsTest, OnlyListedDevicesAppear) {
  train("run", {"devices=[cpu:2, cpu:5]"});
  const auto devices = last_metrics("run")["devices"];
  ASSERT_EQ(devices.size(), 2u);
  EXPECT_EQ(devices[0]["device"], "cpu:2");
  EXPECT_EQ(devices[1]["device"], "cpu:5");
  for (const auto& device : devices) EXPECT_GT(device["peak_bytes"], 0);
}

TEST_F(MetricsTest, CommunicationIsCounted) {
  train("run", {"devices=cpu:0-2"});
  const auto metrics = last_metrics("run");
  // An all-reduce of S bytes over N ranks sends 2 (N - 1) S bytes; S includes a little padding.
  const double bytes = 129'388.0 * 4 * 2 * 2 * metrics["step"].get<double>();
  EXPECT_GE(metrics["comm"]["bytes"], bytes);
  EXPECT_LE(metrics["comm"]["bytes"], 1.01 * bytes);
  EXPECT_GT(metrics["time"]["exposed_comm_s"], 0.0);
  train("single", {"devices=cpu:0", "strategy=single"});
  const auto alone = last_metrics("single");
  expect_consistent(alone);
  EXPECT_EQ(alone["comm"], json({{"bytes", 0}, {"collectives", 0}}));
  EXPECT_EQ(alone["memory_imbalance"], 1.0);
}

TEST_F(MetricsTest, DataParallelLoadsTheFirstDevice) {
  const auto memory_of = [&](const std::string& out, const testing::Arguments& overrides) {
    train(out, overrides);
    const auto metrics = last_metrics(out);
    EXPECT_GT(metrics["memory_imbalance"], 1.0);
    return metrics["devices"];
  };
  const auto devices = memory_of("run", {"strategy=data_parallel", "devices=cpu:0-2"});
  EXPECT_GT(devices[0]["memory"]["optimizer"], 0);
  EXPECT_EQ(devices[1]["memory"]["optimizer"], 0);
  EXPECT_EQ(devices[2]["memory"]["optimizer"], 0);
  EXPECT_GT(devices[0]["peak_bytes"], devices[1]["peak_bytes"]);
  train("ddp", {"devices=cpu:0-2"});
  const auto of_ddp = last_metrics("ddp")["devices"];
  EXPECT_EQ(of_ddp.size(), 3u);
  for (const auto& device : of_ddp) EXPECT_GT(device["memory"]["optimizer"], 0);
}

TEST_F(MetricsTest, OutputDeviceMovesTheGatheredOutputs) {
  // With this many classes the outputs of a batch are the largest tensors.
  const auto activations = [&](int output_device) {
    const std::string out = "run" + std::to_string(output_device);
    train(out,
          {"strategy={name: data_parallel, output_device: " + std::to_string(output_device) + "}", "batch_size=256",
           "dataset={name: synthetic, samples: 256, test_samples: 8, classes: 10000, shape: [1, 16, 16]}"});
    const auto devices = last_metrics(out)["devices"];
    return std::pair(devices[0]["memory"]["activations"].get<double>(),
                     devices[1]["memory"]["activations"].get<double>());
  };
  const double outputs = 256 * 10000 * 4;
  const auto [first_has, second_lacks] = activations(0);
  const auto [first_lacks, second_has] = activations(1);
  EXPECT_GT(first_has - first_lacks, 0.9 * outputs);
  EXPECT_GT(second_has - second_lacks, 0.9 * outputs);
}

TEST_F(MetricsTest, TheNoiseOfGradientsIsToldAtTheEnd) {
  const testing::Finished finished =
      train("run", {"strategy={name: ddp, gradient_noise: true}", "devices=cpu:0-3", "epochs=2", "eval_every=0"});
  const json line = last_metrics("run");
  EXPECT_EQ(violations("metrics.schema.json", line), std::vector<std::string>());
  ASSERT_TRUE(line["gradient_noise"].is_object()) << line;
  EXPECT_GT(line["gradient_noise"]["variance"], 0);
  EXPECT_NE(finished.out.find("\nin the last epoch the gradient noise scale was "), std::string::npos) << finished.out;
  train("plain", {"strategy=ddp", "devices=cpu:0-3", "epochs=2", "eval_every=0"});
  EXPECT_EQ(last_metrics("plain")["gradient_noise"], nullptr);
  EXPECT_EQ(last_metrics("plain")["weights_hash"], line["weights_hash"]);
}

/// The slow device has nine tenths of every batch.
TEST_F(MetricsTest, ADeviceThatAllWaitForIsNamed) {
  const testing::Finished finished =
      train("run", {"devices=[cpu:3, cpu:5]", "split=[0.1, 0.9]", "dataset.limit=1280", "eval_every=0"});
  const json line = last_metrics("run");
  EXPECT_EQ(violations("metrics.schema.json", line), std::vector<std::string>());
  const json& straggler = line["straggler"];
  ASSERT_TRUE(straggler.is_object()) << line;
  EXPECT_EQ(straggler["rank"], 1);
  EXPECT_EQ(straggler["device"], "cpu:5");
  EXPECT_NE(finished.out.find("\nrank 1 (cpu:5 on "), std::string::npos) << finished.out;
  EXPECT_NE(finished.out.find("split: auto\n"), std::string::npos) << finished.out;
  train("single", {"devices=cpu:0", "strategy=single", "dataset.limit=1280"});
  EXPECT_EQ(last_metrics("single")["straggler"], nullptr);
}

TEST_F(MetricsTest, TheSummaryFitsItsSchema) {
  train("run", {"epochs=2"});
  const auto summary = json_of("run/summary.json");
  EXPECT_EQ(violations("summary.schema.json", summary), std::vector<std::string>());
  EXPECT_EQ(summary["exit"], 0);
  EXPECT_EQ(summary["epochs"], 2);
  EXPECT_EQ(summary["steps"], 10);
  EXPECT_EQ(summary["final"], last_metrics("run"));
  EXPECT_EQ(summary["weights_hash"], hash("run"));
  EXPECT_EQ(summary["environment"]["devices"], json({"cpu:0", "cpu:1"}));
  EXPECT_EQ(summary["environment"]["gradient_sums"],
            (json{{"between_devices", "memory"}, {"between_processes", nullptr}}));
}

TEST_F(MetricsTest, StepsAreLoggedWhenAskedFor) {
  train("run", {"log_steps=true", "epochs=2"});
  const auto steps = json_lines("run/steps.jsonl");
  ASSERT_EQ(steps.size(), 10u);
  double loss = 0;
  for (size_t i = 0; i < steps.size(); ++i) {
    EXPECT_EQ(steps[i]["step"], i + 1);
    EXPECT_EQ(steps[i]["epoch"], 1 + i / 5);
    EXPECT_EQ(steps[i]["samples"], 64);
    EXPECT_EQ(steps[i]["learning_rate"], 0.05);
    if (i < 5) loss += steps[i]["loss"].get<double>() / 5;
  }
  EXPECT_NEAR(json_lines("run/metrics.jsonl")[0]["train"]["loss"], loss, 1e-9);
  train("quiet");
  EXPECT_FALSE(exists("quiet/steps.jsonl"));
  EXPECT_FALSE(exists("quiet/tb"));
}

}  // namespace
}  // namespace dptrain
