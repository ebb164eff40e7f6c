// Runs that fail on the way give the root cause in one sentence, in time, and leave no worthless weights.
#include "e2e/command_fixture.h"

namespace dptrain {
namespace {

using testing::Finished;

class FailuresTest : public testing::CommandTest {
 protected:
  /// Expects that a memory limit slightly above what training needs also suffices for evaluations.
  void expect_training_needs_the_most(const std::string& name, const testing::Arguments& overrides) const {
    SCOPED_TRACE(name);
    auto without = overrides, limited = overrides;
    without.emplace_back("eval_every=0");
    const std::string free = name + "_free", of_limit = name + "_limited";
    train(free, without);
    int64_t peak = 0;
    const auto devices = last_metrics(free)["devices"];
    for (const auto& device : devices) peak = std::max<int64_t>(peak, device["peak_bytes"]);
    limited.push_back("memory_limit=" + std::to_string(peak + peak / 50));
    train(of_limit, limited);
    EXPECT_FALSE(last_metrics(of_limit)["test"].is_null());
  }
};

TEST_F(FailuresTest, DivergenceIs79WithoutWeights) {
  for (const char* strategy : {"single", "data_parallel", "ddp"}) {
    SCOPED_TRACE(strategy);
    const Finished finished =
        run(training(strategy, {std::string("strategy=") + strategy, "learning_rate=1e10", "epochs=10",
                                strategy == std::string("single") ? "devices=cpu:0" : "devices=cpu:0-1"}));
    expect_failed(finished, 79, {"step ", "epoch 1", "training diverged", "no longer finite", "was 1e+10"});
    EXPECT_EQ(testing::lines_of(finished.err).size(), 1u) << finished.err;
    EXPECT_FALSE(exists(std::string(strategy) + "/checkpoints"));
    EXPECT_FALSE(exists(std::string(strategy) + "/summary.json"));
  }
}

TEST_F(FailuresTest, WeightsThatAreNotFiniteAreNeverWritten) {
  // After three such steps most weights are NaN, but ReLUs turn NaN into 0, and the loss remains a number.
  const Finished finished = run(training(
      "run", {"dataset={name: mnist, test_limit: 200}", "learning_rate=1e10", "epochs=", "steps=3", "eval_every=0"}));
  expect_failed(finished, 79, {"step 3", "training diverged", "no longer finite"});
  EXPECT_FALSE(exists("run/checkpoints"));
  EXPECT_FALSE(exists("run/metrics.jsonl"));
}

// The first device of data_parallel holds more than the others.
TEST_F(FailuresTest, TheRankThatRunsOutOfMemoryIsNamed) {
  train("free", {"strategy=data_parallel", "eval_every=0"});
  const auto devices = last_metrics("free")["devices"];
  const int64_t first = devices[0]["peak_bytes"], second = devices[1]["peak_bytes"];
  ASSERT_GT(first, second + 1'000'000);
  // At any moment the first device may hold three more batches for the loader, or three fewer, of 200 kB each. The
  // second device may differ by two parts of a batch, of 100 kB each.
  const std::string limit = std::to_string(second + 300'000);
  const Finished finished = run(training("run", {"strategy=data_parallel", "eval_every=0", "memory_limit=" + limit}));
  expect_failed(finished, 71, {"bytes", limit, "use a smaller batch"});
  const std::string sentence = finished.last_error();
  const auto begins = [&](const char* words) { return sentence.starts_with(words); };
  EXPECT_TRUE(begins("dptrain: rank 0 (cpu:0), step 1: ") || begins("dptrain: step 1, loading its batch: cpu:0: "))
      << sentence;
  EXPECT_EQ(testing::lines_of(finished.err).size(), 1u) << finished.err;
  EXPECT_FALSE(exists("run/checkpoints"));
}

TEST_F(FailuresTest, EveryRankOutOfMemoryIsStillOneSentence) {
  const Finished finished = run(training("run", {"devices=cpu:0-3", "memory_limit=600000"}));
  expect_failed(finished, 71, {"rank ", "(cpu:", "start", "bytes", "gradients", "limit of 600000"});
  EXPECT_EQ(testing::lines_of(finished.err).size(), 1u) << finished.err;
}

// An evaluation takes no more samples at once than training did. With fewer samples, a checkpoint of a store would take
// more memory than a step, since the first device collects the optimizer's state.
TEST_F(FailuresTest, ALimitThatIsEnoughForTrainingIsEnoughForEvaluation) {
  for (const char* strategy : {"ddp", "kvstore", "model_parallel", "hybrid"}) {
    const bool pipeline = strategy == std::string("model_parallel");
    expect_training_needs_the_most(
        strategy, {std::string("strategy=") + strategy, pipeline ? "devices=cpu:0-1" : "devices=cpu:0-3",
                   "batch_size=64", "threads=1"});
  }
}

// An evaluation of a text model doesn't compute logits of more rows than training, which computes those of masked
// tokens alone, a sixth of all.
TEST_F(FailuresTest, ALimitThatIsEnoughToTrainATextIsEnoughForItsEvaluation) {
  for (const char* strategy : {"ddp", "data_parallel", "kvstore", "{name: model_parallel, stages: [2, 1]}"}) {
    const std::string name = strategy[0] == '{' ? "model_parallel" : strategy;
    expect_training_needs_the_most(name, {std::string("strategy=") + strategy, "devices=cpu:0-1", "batch_size=16",
                                          "model={name: bert, vocab: 4000, hidden: 16, layers: 2, heads: 2, seq: 64}",
                                          "dataset={name: synthetic, samples: 64, test_samples: 40}"});
  }
}

TEST_F(FailuresTest, ALimitThatIsEnoughChangesNothing) {
  train("free");
  train("limited", {"memory_limit=100000000"});
  EXPECT_EQ(hash("free"), hash("limited"));
}

}  // namespace
}  // namespace dptrain
