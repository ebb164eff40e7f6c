// `dptrain plan --layers`: the model's stages, their shapes and parameters.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "e2e/command_fixture.h"

namespace dptrain {
namespace {

using nlohmann::json;
using testing::Arguments;
using testing::Finished;

class PlanLayersTest : public testing::CommandTest {
 protected:
  Finished layers(const std::string& config, const Arguments& more = {}) const {
    Arguments arguments = {"plan", "--layers", "--config", config};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run(arguments);
  }
  json document(const std::string& config, Arguments more = {}) const {
    more.emplace_back("--json");
    const Finished finished = layers(config, more);
    EXPECT_EQ(finished.exit, 0) << finished.err;
    json printed = json::parse(finished.out);
    EXPECT_EQ(violations("layers.schema.json", printed), Arguments());
    return printed;
  }
};

TEST_F(PlanLayersTest, PrintsATable) {
  const Finished finished = layers("digits.yaml");
  EXPECT_EQ(finished.exit, 0);
  EXPECT_EQ(finished.err, "");
  EXPECT_EQ(finished.out,
            "digits: model lenet, for one sample of [1, 28, 28]\n\n"
            "stage  output        parameters  MFLOP\n"
            "conv1  [20, 12, 12]         520   0.58\n"
            "conv2  [50, 4, 4]        25,050   3.20\n"
            "fc1    [10]             103,818   0.21\n"
            "all                     129,388   3.98\n");
  EXPECT_FALSE(exists("runs"));
  EXPECT_EQ(layers("digits.yaml", {"--quiet"}).out, "");
}

/// Covers the shipped models, including those for GPUs; no data set needs to be downloaded.
TEST_F(PlanLayersTest, FitsATerminalAndNeedsNoDevices) {
  const Arguments gray = {"--set", "dataset={name: synthetic, samples: 512}"};
  const Arguments color = {"--set", "dataset={name: synthetic, shape: [3, 32, 32], samples: 8}", "--set",
                           "batch_size=8"};
  for (const auto& [config, more] :
       {std::pair{"resnet18_2gpu", Arguments{"--devices", "cuda:60,cuda:61", gray[0], gray[1]}},
        {"resnet18_2gpu", {"--devices", "16xh200", gray[0], gray[1]}},
        {"resnet18_layers_1cpu", gray},
        {"pyramidnet_ddp_4gpu", color},
        {"pyramidnet_layers_1cpu", color},
        {"bert_ddp_4gpu", Arguments()},
        {"bert_layers_1cpu", Arguments()}}) {
    SCOPED_TRACE(config);
    const Finished finished = layers(config, more);
    EXPECT_EQ(finished.exit, 0) << finished.err;
    for (const std::string& line : testing::lines_of(finished.out)) EXPECT_LE(line.size(), 80u) << line;
    int64_t parameters = 0;
    const json printed = document(config, more);
    for (const json& stage : printed["stages"]) parameters += stage["parameters"].get<int64_t>();
    EXPECT_EQ(printed["parameters"], parameters);
  }
}

TEST_F(PlanLayersTest, CountsAsAPlanDoes) {
  const Arguments gray = {"--set", "dataset={name: synthetic, samples: 512}"};
  const json layers = document("resnet18_2gpu", gray);
  EXPECT_EQ(layers["run"], "resnet18_2gpu");
  EXPECT_EQ(layers["model"], "resnet18");
  EXPECT_EQ(layers["input"], json({1, 28, 28}));
  EXPECT_EQ(layers["stages"][1]["stage"], "layer1.0");
  EXPECT_EQ(layers["stages"][1]["outputs"], json({{64, 28, 28}}));
  EXPECT_EQ(layers["running_state"], 7808);
  const json plan =
      json::parse(run({"plan", "--config", "resnet18_2gpu", gray[0], gray[1], "--devices", "2xh200", "--json"}).out);
  EXPECT_EQ(violations("plan.schema.json", plan), Arguments());
  EXPECT_EQ(plan["parameters"], layers["parameters"]);
}

TEST_F(PlanLayersTest, CountsWhatGroupsOfParametersTrain) {
  const auto group = [](double rate, double decay, int parameters) {
    return json{{"learning_rate_factor", rate}, {"weight_decay_factor", decay}, {"parameters", parameters}};
  };
  EXPECT_EQ(document("digits.yaml")["parameter_groups"], json({group(1, 1, 129388)}));
  const json layers =
      document("digits.yaml",
               {"--set", "freeze=[conv1]", "--set",
                "parameter_groups=[{dimensions: 1, weight_decay_factor: 0}, {of: fc2, learning_rate_factor: 10}]"});
  EXPECT_EQ(layers["frozen"], 520);
  EXPECT_EQ(layers["parameter_groups"],
            json({group(1, 1, 25'000 + 800 * 128), group(1, 0, 50 + 128), group(10, 1, 1280), group(10, 0, 10)}));
}

TEST_F(PlanLayersTest, RefusesFilesOfTimesAndSaysWhatAModelNeeds) {
  for (const char* flag : {"--operators", "--comm", "--calibrate"}) {
    const Finished finished = layers("digits.yaml", {flag, "file"});
    expect_failed(finished, 64, {"--layers", flag, "dptrain plan --help"});
  }
  expect_refused({"plan", "--layers", "--config", "digits.yaml", "--set", "model={layers: [linear: 5]}"}, 78,
                 {"model.layers[0].linear", "put flatten"});
}

}  // namespace
}  // namespace dptrain
