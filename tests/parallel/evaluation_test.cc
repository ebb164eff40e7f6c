// Given weights have the same loss and accuracy on any number of devices, with the first device's running statistics.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>

#include "ops/reorder.h"
#include "parallel/digits.h"
#include "parallel/pipelines.h"
#include "support/sanitizer.h"
#include "support/test_device.h"

namespace dptrain::parallel {
namespace evaluation_test {

Score evaluated(Strategy& strategy, const Dataset& dataset) {
  const auto score = strategy.evaluate(dataset, {.stopped = [] { return false; }});
  EXPECT_TRUE(score.has_value());
  return score.value_or(Score());
}

void expect_same(const Score& a, const Score& b) {
  EXPECT_EQ(a.samples, b.samples);
  ASSERT_EQ(a.outputs.size(), b.outputs.size());
  for (size_t k = 0; k < a.outputs.size(); ++k) {
    EXPECT_EQ(a.outputs[k].loss_sum, b.outputs[k].loss_sum);
    EXPECT_EQ(a.outputs[k].correct, b.outputs[k].correct);
    EXPECT_EQ(a.outputs[k].counted, b.outputs[k].counted);
  }
}

/// The score of this state, evaluated by a single replica, block after block.
Score score_of(const std::vector<nn::NamedValues>& state, const std::string& model_name, const Dataset& dataset) {
  const auto device = testing::test_device(1);
  Replica replica(*device, context_of({.model = model_name, .devices = 1}).replica, {.updates = false});
  const auto values_of = [&](const std::string& name) {
    return std::ranges::find(state, name, &nn::NamedValues::name)->values;
  };
  for (const Parameter* parameter : replica.model().parameters())
    ops::reorder_into(Tensor::from(*device, parameter->shape(), values_of(parameter->name())), parameter->value());
  for (const nn::RunningState* running : replica.model().states())
    ops::reorder_into(Tensor::from(*device, running->shape, values_of(running->name)), running->value);
  OutputScore score;
  const int64_t size = evaluation_block(dataset, DeviceKind::cpu);
  for (int64_t begin = 0; begin < dataset.samples(); begin += size) {
    const int64_t end = std::min(begin + size, dataset.samples());
    const OutputResults results = replica.evaluate(load_block(dataset, begin, end, *device)).outputs.at(0);
    for (const double loss : results.losses) score.loss_sum += loss;
    score.correct += results.correct;
    score.counted += results.counted;
  }
  return {.outputs = {score}, .samples = dataset.samples()};
}

TEST(Evaluation, GivenWeightsHaveTheSameScoreOnAnyDevices) {
  const Datasets data = digits(10, 333);  // the last block is smaller
  for (const uint64_t seed : {0u, 1u}) {
    const auto single = make_strategy({.name = "single", .devices = 1, .seed = seed});
    const Score reference = evaluated(*single, *data.test);
    EXPECT_EQ(reference.samples, 333);
    EXPECT_GT(reference.mean_loss(), 0);
    for (const char* name :
         {"data_parallel", "ddp", "ddp_sharded", "fsdp", "kvstore", "kvstore_local", "kvstore_dist_sync", "local_sgd"})
      for (const int devices : {1, 2, 3, 4, 7}) {
        SCOPED_TRACE(::testing::Message() << name << " on " << devices);
        const auto strategy = make_strategy({.name = name, .devices = devices, .seed = seed});
        expect_same(evaluated(*strategy, *data.test), reference);
      }
  }
}

/// Logical shards affect training alone.
TEST(Evaluation, GivenWeightsHaveTheSameScoreInShards) {
  const Datasets data = digits(10, 333);
  const Score reference = evaluated(*make_strategy({.name = "single", .devices = 1}), *data.test);
  for (const char* name : {"single", "data_parallel", "ddp", "ddp_sharded", "kvstore"})
    for (const int devices : {1, 2, 4, 8}) {
      if (name == std::string("single") && devices > 1) break;
      SCOPED_TRACE(::testing::Message() << name << " on " << devices);
      const StrategyOptions options{.name = name, .devices = devices};
      StrategyContext context = context_of(options);
      context.shards = 8;
      expect_same(evaluated(*make_strategy(options, context), *data.test), reference);
    }
}

TEST(Evaluation, TheScoreDoesntDependOnTheThreadsOfADevice) {
  if (testing::kThreadSanitizer) GTEST_SKIP() << testing::kTeamsAreUnseen;
  const Datasets data = digits(10, 100);  // the last block is smaller
  for (const char* model : {"lenet", "resnet18"}) {
    const auto score_by = [&](int threads) {
      return evaluated(*make_strategy({.name = "single", .model = model, .devices = 1, .threads = threads}),
                       *data.test);
    };
    const Score reference = score_by(1);
    for (const int threads : {2, 3}) {
      SCOPED_TRACE(::testing::Message() << model << " by " << threads);
      expect_same(score_by(threads), reference);
    }
  }
}

TEST(Evaluation, IsByTheAveragedWeightsWhereThereAreSome) {
  const Datasets data = digits(60, 200);
  for (const char* name : {"single", "data_parallel", "ddp"}) {
    SCOPED_TRACE(name);
    StrategyOptions options{.name = name, .devices = name == std::string("single") ? 1 : 3};
    const Score untrained = evaluated(*make_strategy(options), *data.test);
    const auto plain = make_strategy(options);
    train(*plain, data, 3, 20, 0.1);
    const Score trained = evaluated(*plain, *data.test);

    options.average_decay = 0.0;  // equals the weights themselves, except for rounding
    const auto at_once = make_strategy(options);
    train(*at_once, data, 3, 20, 0.1);
    EXPECT_NEAR(evaluated(*at_once, *data.test).mean_loss(), trained.mean_loss(), 1e-6 * trained.mean_loss());
    options.average_decay = 1.0;  // keeps the initial weights
    const auto never = make_strategy(options);
    train(*never, data, 3, 20, 0.1);
    expect_same(evaluated(*never, *data.test), untrained);
    // Evaluating the average leaves the trained weights as they were.
    train(*never, data, 3, 20, 0.1);
    train(*plain, data, 3, 20, 0.1);
    const auto state = never->state_dict(), expected = plain->state_dict();
    for (size_t t = 0; t < state.size(); ++t) EXPECT_TRUE(state[t].values == expected[t].values) << state[t].name;
  }
}

TEST(Evaluation, TrainedWeightsAreSharedWithAllDevicesFirst) {
  const Datasets data = digits(60, 200);
  for (const char* name : {"data_parallel", "ddp", "ddp_sharded", "fsdp", "kvstore", "kvstore_local", "local_sgd"}) {
    SCOPED_TRACE(name);
    const auto strategy = make_strategy({.name = name, .devices = 3});
    train(*strategy, data, 3, 20, 0.05);
    expect_same(evaluated(*strategy, *data.test), score_of(strategy->state_dict(), "lenet", *data.test));
  }
}

TEST(Evaluation, GoesByTheFirstDevicesRunningStatistics) {
  const Datasets data = digits(12, 130);
  for (const char* name : {"data_parallel", "ddp"}) {
    SCOPED_TRACE(name);
    const auto strategy = make_strategy({.name = name, .model = "resnet18", .devices = 2});
    train(*strategy, data, 2, 6, 0.05);
    const auto state = strategy->state_dict();
    expect_same(evaluated(*strategy, *data.test), score_of(state, "resnet18", *data.test));
    EXPECT_TRUE(
        std::ranges::equal(state, strategy->state_dict(), {}, &nn::NamedValues::values, &nn::NamedValues::values))
        << "evaluating changes nothing";
  }
}

TEST(Evaluation, StopsBetweenBlocks) {
  const Datasets data = digits(10, 2000);
  const auto strategy = make_strategy({});
  std::atomic<int> asked = 0;
  EXPECT_FALSE(strategy->evaluate(*data.test, {.stopped = [&] { return ++asked > 4; }}).has_value());
  EXPECT_LE(asked, 7) << "each device stops the first time it is told to";
  EXPECT_TRUE(strategy->evaluate(*data.test, {.stopped = [] { return false; }}).has_value()) << "it can be asked again";
}

TEST(Evaluation, TellsHowFarItIs) {
  const Datasets data = digits(10, 2000);
  for (const StrategyOptions& options : {StrategyOptions(), pipeline({"1", "2"}, k1f1b, 2)}) {
    SCOPED_TRACE(options.name);
    std::vector<int64_t> done;
    make_strategy(options)->evaluate(
        *data.test, {.stopped = [] { return false; }, .done = [&](int64_t samples) { done.push_back(samples); }});
    ASSERT_GE(done.size(), 3u);
    EXPECT_EQ(done.front(), 0);
    EXPECT_TRUE(std::ranges::is_sorted(done));
    EXPECT_GT(done.back(), 1000);
    EXPECT_LT(done.back(), 2000);
  }
}

}  // namespace evaluation_test
}  // namespace dptrain::parallel
