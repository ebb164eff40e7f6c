// Logical shards give bit-identical weights on any number of devices that divides their number, with any number of
// threads.
#include <gtest/gtest.h>

#include <cmath>

#include "base/clock.h"
#include "parallel/digits.h"
#include "parallel/residual_net.h"
#include "parallel/shard_team.h"
#include "parallel/sleeping_net.h"
#include "parallel/trained_state.h"
#include "support/expect_error.h"
#include "support/sanitizer.h"

namespace dptrain::parallel {
namespace shards_test {

constexpr int kShards = 8;
constexpr int64_t kSteps = 3, kBatch = 20;  // uneven over 8 shards; the last batch of 5 leaves some empty

Trained trained(const StrategyOptions& options, int shards) {
  StrategyContext context = context_of(options);
  context.shards = shards;
  const auto strategy = make_strategy(options, context);
  auto losses = train(*strategy, digits(2 * kBatch + 5, 10), kSteps, kBatch, 0.05, options.micro_batches);
  return {.state = strategy->state_dict(), .losses = std::move(losses)};
}

/// A net with batch norms and a residual, or LeNet.
StrategyOptions net(bool residual) {
  StrategyOptions options{.sgd = {.momentum = 0.9}};
  if (residual) options.net = residual_net();
  return options;
}

/// Parameters: strategy, and whether the net has batch norms.
class ShardsTest : public ::testing::TestWithParam<std::tuple<const char*, bool>> {
 protected:
  static void expect_the_bits_of_one(int threads) {
    const auto [name, residual] = GetParam();
    StrategyOptions options = net(residual);
    options.name = "single";
    options.devices = 1;
    const Trained single = trained(options, kShards);
    options.name = name;
    options.threads = threads;
    for (const int devices : {1, 2, 4, 8}) {
      SCOPED_TRACE(::testing::Message() << devices << " devices of " << threads << " threads");
      options.devices = devices;
      expect_same_bits(trained(options, kShards), single);
    }
  }
};

TEST_P(ShardsTest, AnyDevicesEndInTheBitsOfOne) { expect_the_bits_of_one(1); }

TEST_P(ShardsTest, WithAnyThreads) {
  if (testing::kThreadSanitizer) GTEST_SKIP() << testing::kTeamsAreUnseen;
  expect_the_bits_of_one(3);
}

TEST_P(ShardsTest, OfAnyNumberThatTheDevicesDivide) {
  const auto [name, residual] = GetParam();
  StrategyOptions options = net(residual);
  for (const int shards : {3, 6, 12}) {
    options.name = "single";
    options.devices = 1;
    const Trained single = trained(options, shards);
    options.name = name;
    for (const int devices : {2, 3, 4, 6}) {
      if (shards % devices != 0) continue;
      SCOPED_TRACE(::testing::Message() << shards << " shards on " << devices << " devices");
      options.devices = devices;
      expect_same_bits(trained(options, shards), single);
    }
  }
}

TEST_P(ShardsTest, SoDoMicroBatches) {
  if (testing::kThreadSanitizer) GTEST_SKIP() << testing::kTeamsAreUnseen;
  const auto [name, residual] = GetParam();
  StrategyOptions options = net(residual);
  options.micro_batches = 2;
  options.name = "single";
  options.devices = 1;
  options.threads = 2;
  const Trained single = trained(options, 4);
  options.name = name;
  options.devices = 4;
  options.threads = 1;
  expect_same_bits(trained(options, 4), single);
}

std::string case_name(const ::testing::TestParamInfo<std::tuple<const char*, bool>>& info) {
  return std::string(std::get<0>(info.param)) + (std::get<1>(info.param) ? "_batch_norm" : "_lenet");
}

INSTANTIATE_TEST_SUITE_P(Strategies, ShardsTest,
                         ::testing::Combine(::testing::Values("ddp", "data_parallel", "kvstore", "ddp_sharded"),
                                            ::testing::Bool()),
                         case_name);

TEST(Shards, LearnWhatOneDeviceWithTheWholeBatchLearns) {
  StrategyOptions options = net(false);
  options.devices = 2;
  const Trained shards = trained(options, kShards), whole = trained(options, 0);
  for (size_t step = 0; step < whole.losses.size(); ++step)
    EXPECT_NEAR(shards.losses[step], whole.losses[step], 1e-5) << "step " << step + 1;
}

/// The norm is that of the sum over all shards, even if each device knows only a range of it.
TEST(Shards, ClipByOneNorm) {
  StrategyOptions options = net(true);
  const Trained unclipped = trained(options, kShards);
  options.clip_norm = 0.01;
  options.name = "single";
  options.devices = 1;
  const Trained single = trained(options, kShards);
  EXPECT_NE(single.losses, unclipped.losses) << "it does clip";
  for (const char* name :
       {"ddp", "data_parallel", "ddp_sharded", "kvstore", "kvstore_round_robin", "kvstore_local", "kvstore_dist_sync"})
    for (const int devices : {1, 2, 4, 8}) {
      SCOPED_TRACE(::testing::Message() << name << " on " << devices << " devices");
      options.name = name;
      options.devices = devices;
      expect_same_bits(trained(options, kShards), single);
    }
}

TEST(Shards, BatchNormsSeeTheirOwn) {
  // Shards have batch statistics of fewer samples, on one device too.
  StrategyOptions options = net(true);
  options.devices = 1;
  options.name = "single";
  EXPECT_NE(trained(options, kShards).losses, trained(options, 0).losses);
  // Two shards on one device have the statistics of two devices under `local`. There the first device's are saved, here
  // the mean of both.
  StrategyOptions two = net(true);
  two.devices = 2;
  two.batch_norm = BatchNormMode::average;
  const Trained shards = trained(options, 2), devices = trained(two, 0);
  for (size_t t = 0; t < shards.state.size(); ++t)
    for (size_t i = 0; i < shards.state[t].values.size(); ++i)
      ASSERT_NEAR(shards.state[t].values[i], devices.state[t].values[i], 1e-5) << shards.state[t].name;
}

TEST(Shards, KeepTheFirstOnesStatisticsWhereAsked) {
  StrategyOptions options = net(true);
  options.devices = 1;
  options.name = "single";
  options.batch_norm = BatchNormMode::first;
  const Trained one = trained(options, 2);
  // On one device the mean of all shards is saved, which differs from the first shard's statistics.
  options.batch_norm = BatchNormMode::average;
  const Trained mean = trained(options, 2);
  bool differs = false;
  for (size_t t = 0; t < one.state.size(); ++t) {
    const bool running = one.state[t].name.find("running_") != std::string::npos;
    if (running)
      differs = differs || one.state[t].values != mean.state[t].values;
    else
      EXPECT_EQ(one.state[t].values, mean.state[t].values) << "no statistic: " << one.state[t].name;
  }
  EXPECT_TRUE(differs);
  for (const BatchNormMode mode : {BatchNormMode::first, BatchNormMode::average, BatchNormMode::local}) {
    for (const char* name : {"ddp", "data_parallel", "kvstore"}) {
      StrategyOptions two = net(true);
      two.name = name;
      two.batch_norm = mode;
      SCOPED_TRACE(std::string(name) + ", " + std::string(batch_norm_mode_name(mode)));
      expect_same_bits(trained(two, 2), mode == BatchNormMode::first ? one : mean);
    }
  }
  // The statistics are those of the first of two devices with one shard each.
  StrategyOptions two = net(true);
  two.batch_norm = BatchNormMode::first;
  const Trained devices = trained(two, 0);
  for (size_t t = 0; t < one.state.size(); ++t)
    for (size_t i = 0; i < one.state[t].values.size(); ++i)
      ASSERT_NEAR(one.state[t].values[i], devices.state[t].values[i], 1e-5) << one.state[t].name;
}

TEST(Shards, ADeviceHoldsLogarithmicallyManyGradients) {
  StrategyOptions options = net(false);
  const auto peak = [&](int shards, int threads) {
    options.threads = threads;
    StrategyContext context = context_of(options);
    context.shards = shards;
    context.replica.optimizer = optimizer_of(options);
    const auto strategy = make_strategy(options, context);
    train(*strategy, digits(64, 10), 1, 64, 0.05);
    return strategy->take_costs(0).memory_at_peak;
  };
  // Two kinds of devicese shard each, with the sum beside the device's own gradients, or 16 shards each, one after
  // the other.
  const int64_t one = peak(2, 1)[MemoryPurpose::gradients] / 2, several = peak(32, 1)[MemoryPurpose::gradients];
  EXPECT_LE(several, one * (1 + 5)) << "log2(16) + 1 beside its own";
  EXPECT_GE(several, one * 5) << "the test sees the sums";
  if (testing::kThreadSanitizer) GTEST_SKIP() << testing::kTeamsAreUnseen;
  EXPECT_LE(peak(32, 2)[MemoryPurpose::gradients], one * (1 + 5)) << "no more with two threads";
  // Each thread holds a shard, and complete subtrees hold the other 13 of 16.
  EXPECT_LE(peak(32, 4)[MemoryPurpose::gradients], one * (1 + 4 + 3)) << "four that are computed, and log2(13)";
}

TEST(Shards, ADeviceComputesAsManyAtATimeAsItHasThreads) {
  if (testing::kThreadSanitizer) GTEST_SKIP() << testing::kTeamsAreUnseen;
  // A shard's pass sleeps for 0.2 s, so that the number of cores doesn't matter.
  const auto seconds_of_eight = [](int threads) {
    const StrategyOptions options{
        .name = "single",
        .net = sleeping_net({{.outputs = 10, .sleeps = {.forward_s = 0.1, .backward_s = 0.1}}}),
        .devices = 1,
        .threads = threads};
    StrategyContext context = context_of(options);
    context.shards = kShards;
    const auto strategy = make_strategy(options, context);
    const auto begun = Clock::now();
    train(*strategy, digits(16, 10), 1, 16, 0.05);
    return seconds_since(begun);
  };
  EXPECT_GE(seconds_of_eight(1), 8 * 0.2) << "one after the other";
  const double by_four = seconds_of_eight(4);
  EXPECT_GE(by_four, 2 * 0.2) << "four, and four more";
  EXPECT_LT(by_four, 6 * 0.2);
}

TEST(Shards, AFailureOfAThreadIsTheRanks) {
  if (testing::kThreadSanitizer) GTEST_SKIP() << testing::kTeamsAreUnseen;
  StrategyOptions options = net(false);
  options.threads = 3;
  options.memory_limit_bytes = 8 << 20;
  StrategyContext context = context_of(options);
  context.shards = kShards;
  testing::expect_error(ExitCode::device, {"rank", "a limit of 8388608"}, [&] {
    const auto strategy = make_strategy(options, context);
    train(*strategy, digits(4000, 10), 1, 4000, 0.05);
  });
}

}  // namespace shards_test
}  // namespace dptrain::parallel
