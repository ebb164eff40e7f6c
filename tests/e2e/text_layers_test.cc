// A text net that is configured as a list of layers works throughout the program: under strategies, from checkpoints,
// in plans and verifications.

#include "e2e/command_fixture.h"

namespace dptrain {
namespace {

using testing::Arguments;
using testing::Finished;

class TextLayersTest : public testing::CommandTest {
 protected:
  TextLayersTest() {
    folder_.write("digits.yaml",
                  "model:\n"
                  "  layers:\n"
                  "    - embedding: {features: 16, vocab: 60, seq: 24}\n"
                  "    - layer_norm\n"
                  "    - repeat:\n"
                  "        times: 2\n"
                  "        layers:\n"
                  "          - residual: [attention: {heads: 2, dropout: 0.1}, dropout: 0.1]\n"
                  "          - layer_norm\n"
                  "          - residual: [linear: 32, relu, linear: 16]\n"
                  "          - layer_norm\n"
                  "    - pretraining_head\n"
                  "dataset: {name: synthetic, samples: 48, test_samples: 12}\n"
                  "devices: [cpu:0]\n"
                  "threads: 1\n"
                  "batch_size: 12\n"
                  "learning_rate: 0.01\n"
                  "optimizer: adamw\n"
                  "epochs: 2\n");
  }
};

TEST_F(TextLayersTest, LearnTheSameUnderEveryStrategy) {
  train("single");
  const auto one = last_metrics("single");
  const std::vector<std::pair<std::string, Arguments>> ways = {
      {"ddp", {"devices=cpu:0-1", "strategy=ddp"}},
      {"model_parallel", {"devices=cpu:0-1", "strategy={name: model_parallel, stages: [3, 3], micro_batches: 2}"}}};
  for (const auto& [name, settings] : ways) {
    SCOPED_TRACE(name);
    train(name, settings);
    const auto several = last_metrics(name);
    // The tolerance is the effect of another order of sums after 8 steps of Adam.
    for (const char* loss : {"loss", "mlm_loss", "nsp_loss"})
      EXPECT_NEAR(several["test"][loss].get<double>(), one["test"][loss].get<double>(), 1e-5) << loss;
  }
}

TEST_F(TextLayersTest, LearnWhichWordsAreLikely) {
  train("run", {"dataset.samples=240", "epochs=20"});
  EXPECT_LT(last_metrics("run")["test"]["mlm_loss"], 4.04) << "ln 60, or 4.09, is to know nothing of 60 words";
}

TEST_F(TextLayersTest, GoOnFromACheckpointInTheSameBits) {
  for (const std::string strategy : {"single", "{name: model_parallel, stages: [3, 3], micro_batches: 2}"}) {
    SCOPED_TRACE(strategy);
    const std::string devices = strategy == "single" ? "devices=cpu:0" : "devices=cpu:0-1";
    const std::string run_name = strategy.substr(0, 6) == "single" ? "single" : "cut";
    train(run_name + "-whole", {devices, "strategy=" + strategy, "epochs=2"});
    train(run_name, {devices, "strategy=" + strategy, "epochs=1"});
    Arguments resuming = training(run_name, {devices, "strategy=" + strategy, "epochs=2"});
    resuming.emplace_back("--resume");
    const Finished resumed = run(resuming);
    ASSERT_EQ(resumed.exit, 0) << resumed.err;
    EXPECT_EQ(hash(run_name), hash(run_name + "-whole"));
    EXPECT_EQ(last_metrics(run_name)["test"]["loss"], last_metrics(run_name + "-whole")["test"]["loss"]);
  }
}

TEST_F(TextLayersTest, CanBePlannedVerifiedAndEvaluated) {
  train("run");
  const Finished evaluated = run({"eval", "--config", "digits.yaml", "--checkpoint", "run", "--json"});
  ASSERT_EQ(evaluated.exit, 0) << evaluated.err;
  EXPECT_EQ(nlohmann::json::parse(evaluated.out)["loss"], last_metrics("run")["test"]["loss"]);
  const Finished planned = run({"plan", "--config", "digits.yaml", "--devices", "cpu:0-1", "--set", "strategy=ddp"});
  EXPECT_EQ(planned.exit, 0) << planned.err;
  const Finished verified = run({"verify", "--config", "digits.yaml", "--devices", "cpu:0-1", "--set", "strategy=ddp"});
  EXPECT_EQ(verified.exit, 0) << verified.out << verified.err;
}

TEST_F(TextLayersTest, MistakesStandWithTheirPlace) {
  expect_failed(run(training("run", {"model={layers: [embedding: 10, attention: 4, pretraining_head]}"})), 78,
                {"layers[1].attention (attention1): 4 heads need", "choose a number of heads that divides 10"});
}

}  // namespace
}  // namespace dptrain
