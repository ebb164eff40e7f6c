// Every file of configs/ trains as it is, except that it has fewer samples, and CPU workers instead of GPUs.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "config/config_document.h"
#include "data/small_text.h"
#include "e2e/command_fixture.h"
#include "train/experiment.h"

namespace dptrain {
namespace {

using testing::Arguments;

/// The stems of configs/*.yaml, sorted. A new file is tested automatically.
std::vector<std::string> config_names() {
  std::vector<std::string> names;
  for (const auto& file : std::filesystem::directory_iterator(testing::source_file("configs")))
    if (file.path().extension() == ".yaml") names.push_back(file.path().stem().string());
  std::ranges::sort(names);
  return names;
}

std::string path_of(const std::string& name) { return testing::source_file("configs/" + name + ".yaml"); }

/// A file's experiment on CPU workers that replace its devices.
train::Experiment experiment_of(const std::string& name, const Arguments& overrides) {
  ConfigNode root = load_config(path_of(name));
  for (const auto& assignment : overrides) override_config(root, assignment);
  train::Experiment experiment;
  const ConfigSession session(root, [&](ConfigReader& config) { experiment = train::read_experiment(config, name); });
  return experiment;
}

/// Settings that make a step short, with available data in place of what the repository doesn't have.
Arguments smaller(const train::Experiment& experiment) {
  const std::string& data = experiment.dataset.name;
  Arguments overrides;
  if (experiment.model.name == "bert")
    overrides = {"model.vocab=60", "model.hidden=32", "model.layers=2", "model.heads=2", "model.seq=24"};
  if (experiment.model.name == "pyramidnet") overrides = {"model.alpha=12", "model.depth=3", "model.blocks=1"};
  if (data == "text") overrides.emplace_back("dataset.files=small.txt");
  if (data == "text" && experiment.model.name == "layers")
    overrides.insert(overrides.end(), {"dataset.vocabulary=60", "dataset.sequence=24"});
  if (data == "fashion_mnist")
    overrides.insert(overrides.end(), {"dataset.name=synthetic", "dataset.shape=[1, 16, 16]"});
  if (data == "cifar10") overrides.insert(overrides.end(), {"dataset.name=synthetic", "dataset.shape=[3, 32, 32]"});
  return overrides;
}

class ConfigTest : public testing::CommandTest, public ::testing::WithParamInterface<std::string> {
 protected:
  ConfigTest() {
    const TextLines lines = testing::small_text();
    std::string text;
    for (int64_t i = 0; i < 20 * lines.count(); ++i) text += std::string(lines[i % lines.count()]) + "\n";
    folder_.write("small.txt", text);
  }
};

TEST_P(ConfigTest, TrainsOnCpuWorkers) {
  const std::string& name = GetParam();
  Arguments overrides = testing::on_cpu_workers(name, load_config(path_of(name)));
  const train::Experiment experiment = experiment_of(name, overrides);
  const size_t devices = experiment.devices.size();
  // The smallest step that has a sample for each shard, or two samples for each device.
  const int64_t batch = 2 * std::max<int64_t>(4, static_cast<int64_t>(devices));

  Arguments arguments = {"--config", path_of(name), "--out", "run", "--progress", "none"};
  std::ranges::copy(smaller(experiment), std::back_inserter(overrides));
  const int held_out = experiment.validation.samples > 0 ? 4 : 0;
  if (held_out > 0) overrides.push_back(fmt::format("validation.samples={}", held_out));
  overrides.insert(overrides.end(), {fmt::format("dataset.limit={}", 2 * batch + held_out), "dataset.test_limit=5",
                                     fmt::format("batch_size={}", batch), "epochs=", "steps=2"});
  for (const auto& assignment : overrides) arguments.insert(arguments.end(), {"--set", assignment});
  const testing::Finished finished = run(arguments);
  ASSERT_EQ(finished.exit, 0) << finished.err;

  const auto metrics = last_metrics("run");
  EXPECT_EQ(violations("metrics.schema.json", metrics), std::vector<std::string>());
  EXPECT_EQ(metrics["run"], name);
  EXPECT_EQ(metrics["world_size"], devices);
  EXPECT_EQ(metrics["step"], 2);
  EXPECT_EQ(metrics["train"]["samples"], 2 * batch);
  EXPECT_EQ(metrics["test"]["samples"], 5);
  EXPECT_GT(metrics["train"]["loss"], 0.0);
  EXPECT_TRUE(std::isfinite(metrics["test"]["loss"].get<double>()));
  int64_t counted = 0;
  for (const auto& device : metrics["devices"]) counted += device["samples"].get<int64_t>();
  EXPECT_EQ(counted, 2 * batch);
  const auto summary = json_of("run/summary.json");
  EXPECT_EQ(violations("summary.schema.json", summary), std::vector<std::string>());
  EXPECT_EQ(summary["exit"], 0);
  std::vector<std::string> listed;
  for (const DeviceId& device : experiment.devices) listed.push_back(device.name());
  EXPECT_EQ(summary["environment"]["devices"], listed);
  EXPECT_EQ(summary["environment"]["threads"], experiment.threads);
  // Trials may choose another strategy each time.
  const auto& trials = summary["strategy_trials"];
  EXPECT_EQ(metrics["strategy"],
            trials.is_null() ? nlohmann::json(experiment.strategy.name) : trials["chosen"]["name"]);
  EXPECT_EQ(trials.is_null(), experiment.strategy.name != "auto");
  EXPECT_EQ(summary["weights_hash"], hash("run"));
}

INSTANTIATE_TEST_SUITE_P(Configs, ConfigTest, ::testing::ValuesIn(config_names()),
                         [](const auto& row) { return row.param; });

class MemoryLimitTest : public testing::CommandTest {};

TEST_F(MemoryLimitTest, ANetThatOneWorkerCannotHoldTrainsCutInTwo) {
  const auto one_step = [&](Arguments arguments) {
    arguments.insert(arguments.end(), {"--config", path_of("bert_model_parallel_2cpu"), "--set",
                                       "dataset={name: synthetic, samples: 32, test_samples: 32}", "--set",
                                       "epochs=", "--set", "steps=1", "--progress", "none"});
    return run(arguments);
  };
  const auto whole = one_step({"--devices", "cpu:0", "--set", "strategy=single", "--out", "whole"});
  expect_failed(whole, 71, {"cpu:0", "a limit of 60000000"});
  const auto cut = one_step({"--out", "cut"});
  EXPECT_EQ(cut.exit, 0) << cut.err;
  const auto devices = last_metrics("cut")["devices"];
  EXPECT_EQ(devices.size(), 2u);
  for (const auto& device : devices) EXPECT_LE(device["peak_bytes"], 60'000'000);
}

}  // namespace
}  // namespace dptrain
