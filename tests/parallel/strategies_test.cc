// Every strategy computes what one device computes with the whole batch, on LeNet and real digits: gradients up to
// rounding, the losses of longer runs, counts and costs. Weights of all nets are tested in parity_matrix_test.cc, bit
// for bit where sums are the same.
#include <gtest/gtest.h>

#include <cmath>

#include "parallel/digits.h"
#include "parallel/trained_state.h"

namespace dptrain::parallel {
namespace strategies_test {

constexpr optim::SgdSettings kMomentum = {.momentum = 0.9};
/// The relative error of a gradient or a loss whose sums are made in another order: float32 rounds to 2^-24, or 6e-8,
/// and sums over 64 samples and four layers round several times.
constexpr double kOtherOrder = 1e-6;

/// For two vectors of all values: the norm of their difference, and the norm of the second.
struct Difference {
  double norm = 0;
  double of = 0;
};

/// Compares the gradients of one step of plain SGD from `before` to `after` with those of the step to `other`. A
/// learning rate of 2^16 leaves so little of the weights that the gradients can be read with float32's own precision.
Difference gradient_difference(const State& before, const State& after, const State& other) {
  Difference sum;
  for (size_t t = 0; t < before.size(); ++t)
    for (size_t i = 0; i < before[t].values.size(); ++i) {
      const double start = before[t].values[i];
      const double gradient = (start - after[t].values[i]) / 65536, reference = (start - other[t].values[i]) / 65536;
      sum.norm += (gradient - reference) * (gradient - reference);
      sum.of += reference * reference;
    }
  return {.norm = std::sqrt(sum.norm), .of = std::sqrt(sum.of)};
}

Trained trained(const StrategyOptions& options, int64_t steps = 5, int64_t batch = 64, double learning_rate = 0.05) {
  const auto strategy = make_strategy(options);
  const Datasets data = digits(steps * batch, 10);
  auto losses = train(*strategy, data, steps, batch, learning_rate, options.micro_batches);
  return {.state = strategy->state_dict(), .losses = std::move(losses)};
}

/// Parameters: strategy and devices. A batch of 64 is uneven on 3 devices.
class StrategiesTest : public ::testing::TestWithParam<std::tuple<const char*, int>> {
 protected:
  StrategyOptions options() const {
    return {.name = std::get<0>(GetParam()), .devices = std::get<1>(GetParam()), .sgd = {}};
  }
};

TEST_P(StrategiesTest, FirstGradientsAreThoseOfOneDevice) {
  const StrategyOptions single{.name = "single", .devices = 1};
  const State before = make_strategy(single)->state_dict();
  const Trained one = trained(single, 1, 64, 65536), several = trained(options(), 1, 64, 65536);
  const Difference difference = gradient_difference(before, several.state, one.state);
  EXPECT_GT(difference.of, 0.1) << "the gradients' norm";
  EXPECT_LE(difference.norm, kOtherOrder * difference.of);
}

/// Expects a batch in micro-batches to have the loss and the gradients of one device with the whole batch.
void expect_accumulated(StrategyOptions several, const std::vector<int64_t>& numbers_of_micro_batches) {
  const StrategyOptions single{.name = "single", .devices = 1};
  const State before = make_strategy(single)->state_dict();
  const Trained one = trained(single, 1, 64, 65536);
  for (const int64_t micro_batches : numbers_of_micro_batches) {
    SCOPED_TRACE(::testing::Message() << several.name << ", " << micro_batches << " micro-batches");
    several.micro_batches = micro_batches;
    const Trained accumulated = trained(several, 1, 64, 65536);
    EXPECT_NEAR(accumulated.losses[0], one.losses[0], kOtherOrder * one.losses[0]);
    const Difference difference = gradient_difference(before, accumulated.state, one.state);
    EXPECT_LE(difference.norm, kOtherOrder * difference.of);
  }
}

TEST_P(StrategiesTest, AccumulatedGradientsAreThoseOfOneLargerBatch) {
  expect_accumulated(options(), {2, 5, 63});  // 63 micro-batches leave devices without samples
}

TEST_P(StrategiesTest, ClippedGradientsMoveTheWeightsByTheirNorm) {
  const State before = make_strategy(options())->state_dict();
  StrategyOptions clipped = options();
  clipped.clip_norm = 0.125;
  const Difference moved = gradient_difference(before, trained(clipped, 1, 64, 65536).state, before);
  // Clipping divides by the norm plus 1e-6, so as never to divide by zero.
  EXPECT_NEAR(moved.norm, 0.125, 1e-6);
}

TEST_P(StrategiesTest, TwentyLossesAreThoseOfOneDevice) {
  StrategyOptions several = options();
  several.sgd = kMomentum;
  const auto reference = trained({.name = "single", .devices = 1, .sgd = kMomentum}, 20).losses;
  const auto losses = trained(several, 20).losses;
  ASSERT_EQ(losses.size(), 20u);
  // A rounding difference grows with every later step: tenfold by momentum, and further where a max-pool or a ReLU then
  // decides differently.
  for (size_t i = 0; i < losses.size(); ++i)
    EXPECT_NEAR(losses[i], reference[i], 1e-3 * reference[i]) << "step " << i + 1;
  EXPECT_LT(losses.back(), 0.98 * losses.front()) << "it learns";
}

TEST_P(StrategiesTest, ARunCanBeRepeatedBitForBit) {
  StrategyOptions several = options();
  several.sgd = kMomentum;
  expect_same_bits(trained(several).state, trained(several).state);
}

TEST_P(StrategiesTest, BatchesSmallerThanTheDevicesLeaveSomeWithoutSamples) {
  // The last batch of an epoch may be this small.
  StrategyOptions several = options();
  const State before = make_strategy(several)->state_dict();
  const Trained one = trained({.name = "single", .devices = 1}, 1, 1, 65536), two = trained(several, 1, 1, 65536);
  const Difference difference = gradient_difference(before, two.state, one.state);
  EXPECT_LE(difference.norm, kOtherOrder * difference.of);
  EXPECT_NEAR(one.losses[0], two.losses[0], kOtherOrder * one.losses[0]);
}

std::string case_name(const ::testing::TestParamInfo<std::tuple<const char*, int>>& info) {
  return std::string(std::get<0>(info.param)) + "_" + std::to_string(std::get<1>(info.param));
}

INSTANTIATE_TEST_SUITE_P(Single, StrategiesTest, ::testing::Values(std::tuple{"single", 1}), case_name);
INSTANTIATE_TEST_SUITE_P(Several, StrategiesTest,
                         ::testing::Combine(::testing::Values("data_parallel", "parallel_criterion", "ddp",
                                                              "ddp_sharded", "kvstore", "kvstore_local",
                                                              "kvstore_round_robin"),
                                            ::testing::Values(1, 2, 3, 4)),
                         case_name);

TEST(Strategies, BucketsAndOverlapChangeNoBit) {
  const State reference = trained({.devices = 3, .sgd = kMomentum}).state;
  for (const BucketOptions& buckets :
       {BucketOptions{.overlap = false}, BucketOptions{.bucket_mb = 1e-6, .first_bucket_mb = 1e-6},
        BucketOptions{.bucket_mb = 0.1, .first_bucket_mb = 0.01},
        BucketOptions{.bucket_mb = 1e3, .first_bucket_mb = 1e3, .overlap = false}}) {
    SCOPED_TRACE(buckets.bucket_mb);
    expect_same_bits(trained({.devices = 3, .buckets = buckets, .sgd = kMomentum}).state, reference);
  }
}

TEST(Strategies, PipelinesAccumulateToOneLargerBatch) {
  StrategyOptions pipeline{.name = "model_parallel", .devices = 2, .pipeline = {.micro_batches = 4}};
  expect_accumulated(pipeline, {8, 20});
  pipeline.name = "hybrid";
  pipeline.devices = 4;
  pipeline.pipeline.replicas = 2;
  expect_accumulated(pipeline, {8, 20});
}

TEST(Strategies, DeferredUpdatesAccumulateToOneLargerBatch) {
  expect_accumulated({.devices = 3, .buckets = {.defer_updates = true}}, {2, 5});
}

TEST(Strategies, EveryOptimizerEndsInTheSameBits) {
  for (const bool decoupled : {false, true}) {
    StrategyOptions options{.devices = 3,
                            .adam = optim::AdamSettings{.weight_decay = 0.1, .decoupled = decoupled},
                            .clip_norm = 0.5,
                            .micro_batches = 3};
    const State ddp = trained(options, 6, 50, 0.01).state;
    for (const char* name : {"data_parallel", "ddp_sharded", "kvstore", "kvstore_local"}) {
      SCOPED_TRACE(name);
      options.name = name;
      expect_same_bits(trained(options, 6, 50, 0.01).state, ddp);
    }
  }
}

TEST(Strategies, DdpCommunicatesNothingBetweenMicroBatches) {
  const StrategyOptions kinds[] = {
      {.name = "ddp"}, {.name = "ddp_sharded"}, {.name = "ddp", .buckets = {.defer_updates = true}}};
  for (const StrategyOptions& options : kinds) {
    SCOPED_TRACE(options.name + (options.buckets.defer_updates ? ", overlap: next_forward" : ""));
    const auto counts_of = [&](int64_t micro_batches) {
      const auto strategy = make_strategy(options);
      train(*strategy, digits(64, 10), 1, 64, 0.05, micro_batches);
      return strategy->take_costs(0).communication;
    };
    EXPECT_GT(counts_of(1).bytes, 0);
    EXPECT_EQ(counts_of(4).bytes, counts_of(1).bytes);
    EXPECT_EQ(counts_of(4).collectives, counts_of(1).collectives);
  }
}

TEST(Strategies, SamplesAndTimesAreCountedOnEachDevice) {
  const Datasets data = digits(100, 10);
  for (const char* name : {"data_parallel", "ddp"}) {
    SCOPED_TRACE(name);
    const auto strategy = make_strategy({.name = name, .devices = 3});
    train(*strategy, data, 2, 50, 0.05);
    int64_t samples = 0;
    for (int rank = 0; rank < 3; ++rank) {
      const RankCosts costs = strategy->take_costs(rank);
      EXPECT_EQ(costs.samples, rank == 0 ? 32 : 34) << "16 + 17 + 17 of 50, twice";
      EXPECT_GT(costs.times[Phase::compute], 0);
      EXPECT_GT(costs.times[Phase::communication], 0);
      EXPECT_GT(costs.peak_bytes, 0);
      EXPECT_EQ(costs.memory_at_peak.total_bytes(), costs.peak_bytes);
      EXPECT_EQ(costs.times[Phase::optimizer] > 0, name == std::string("ddp") || rank == 0);
      EXPECT_EQ(strategy->take_costs(rank).samples, 0) << "taken";
      samples += costs.samples;
    }
    EXPECT_EQ(samples, 100);
  }
}

TEST(Strategies, MemoryOfADeviceThatIsNotListedStaysZero) {
  const Datasets data = digits(64, 70);
  const auto beside = open_device({DeviceKind::cpu, 5});
  for (const char* name : {"single", "data_parallel", "ddp"}) {
    SCOPED_TRACE(name);
    const auto strategy = make_strategy({.name = name, .devices = name == std::string("single") ? 1 : 2});
    train(*strategy, data, 2, 32, 0.05);
    strategy->evaluate(*data.test, {.stopped = [] { return false; }});
    EXPECT_GT(strategy->take_costs(0).peak_bytes, 0);
    EXPECT_EQ(beside->allocator().peak_bytes(), 0);
  }
}

}  // namespace strategies_test
}  // namespace dptrain::parallel
