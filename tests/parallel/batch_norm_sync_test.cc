// With `batch_norm: sync` several devices compute what one device computes with the whole batch, batch norms included:
// on a small residual net and real digits.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "parallel/digits.h"
#include "parallel/residual_net.h"
#include "parallel/trained_state.h"

namespace dptrain::parallel {
namespace batch_norm_sync_test {

/// A learning rate for plain SGD. It leaves so little of the weights that a step's gradients can be read from them with
/// float32's own precision.
constexpr double kAllGradient = 65536;

// Gradients go through five batch norms. Each adds a few rounding errors of 6e-8, together about 1e-6 of the gradients'
// norm. With separate batch statistics per device, the gradients would be off by more than a tenth.
constexpr double kRounding = 1e-5;

StrategyOptions sync_on(const char* name, int devices) {
  return {.name = name, .net = residual_net(), .devices = devices, .batch_norm = BatchNormMode::sync};
}

struct Trained {
  State state;
  std::vector<double> losses;
  CommCounts sent;  ///< bytes of all ranks together, collectives of each rank
};

Trained trained(const StrategyOptions& options, int64_t steps, int64_t batch, double learning_rate) {
  const auto strategy = make_strategy(options);
  Trained result;
  result.losses = train(*strategy, digits(steps * batch, 10), steps, batch, learning_rate, options.micro_batches);
  for (int rank = 0; rank < strategy->ranks(); ++rank) {
    const CommCounts own = strategy->take_costs(rank).communication;
    result.sent = {.bytes = result.sent.bytes + own.bytes, .collectives = own.collectives};
  }
  result.state = strategy->state_dict();
  return result;
}

StrategyOptions single_like(StrategyOptions options) {
  options.name = "single";
  options.devices = 1;
  return options;
}

/// Compares states after a step of kAllGradient, where the parameters are the gradients. All parameters must agree as
/// one vector, and so must each tensor of running statistics.
void expect_close(const State& got, const State& right, double bound) {
  ASSERT_EQ(got.size(), right.size());
  double gradients = 0, gradients_apart = 0;
  for (size_t t = 0; t < got.size(); ++t) {
    double norm = 0, apart = 0;
    for (size_t i = 0; i < right[t].values.size(); ++i) {
      const double value = right[t].values[i], distance = got[t].values[i] - value;
      norm += value * value;
      apart += distance * distance;
    }
    if (right[t].name.find("running") != std::string::npos) {
      EXPECT_LE(std::sqrt(apart), bound * std::sqrt(norm)) << right[t].name;
    } else {
      gradients += norm;
      gradients_apart += apart;
    }
  }
  EXPECT_GT(std::sqrt(gradients), 0.1 * kAllGradient);
  EXPECT_LE(std::sqrt(gradients_apart), bound * std::sqrt(gradients));
}

/// Parameters: strategy and devices.
class BatchNormSync : public ::testing::TestWithParam<std::tuple<const char*, int>> {
 protected:
  StrategyOptions options() const { return sync_on(std::get<0>(GetParam()), std::get<1>(GetParam())); }
  void expect_as_single(const StrategyOptions& several, int64_t batch, double bound) {
    const Trained one = trained(single_like(several), 1, batch, kAllGradient);
    const Trained got = trained(several, 1, batch, kAllGradient);
    EXPECT_NEAR(got.losses[0], one.losses[0], bound * one.losses[0]) << "the forward pass";
    expect_close(got.state, one.state, bound);
  }
};

TEST_P(BatchNormSync, AStepIsThatOfOneDevice) { expect_as_single(options(), 22, kRounding); }  // uneven on 3 and 4

TEST_P(BatchNormSync, SoIsOneOfFewerSamplesThanDevices) {
  // No device may wait for a device that has nothing to do: pytorch/pytorch#38174 and #48988.
  expect_as_single(options(), 2, kRounding);
  expect_as_single(options(), 1, kRounding);
}

TEST_P(BatchNormSync, SoAreMicroBatches) {
  // Batch norms see one micro-batch at a time, on one device and on several. With 5 samples in 7 micro-batches, some
  // micro-batches have one sample and some none.
  for (const auto& [micro_batches, batch] : {std::pair<int64_t, int64_t>{2, 22}, {7, 30}, {7, 5}}) {
    SCOPED_TRACE(::testing::Message() << batch << " samples in " << micro_batches);
    StrategyOptions several = options();
    several.micro_batches = micro_batches;
    expect_as_single(several, batch, kRounding);
  }
}

TEST_P(BatchNormSync, SoItIsInHalfPrecision) {
  // Where sums differ in their last bit, some activations round to a neighboring bf16 value, 2^-8 away.
  StrategyOptions several = options();
  several.precision = Precision::bf16;
  expect_as_single(several, 22, 0.03);
}

TEST_P(BatchNormSync, SoItIsWithoutRecomputing) {
  StrategyOptions several = options();
  const State again = trained(several, 2, 22, 0.05).state;
  several.recompute = Recompute::none;
  expect_same_bits(trained(several, 2, 22, 0.05).state, again);
}

TEST_P(BatchNormSync, TwentyLossesAreThoseOfOneDevice) {
  StrategyOptions several = options();
  several.sgd = {.momentum = 0.9};
  const auto reference = trained(single_like(several), 20, 22, 0.05).losses;
  const auto losses = trained(several, 20, 22, 0.05).losses;
  ASSERT_EQ(losses.size(), 20u);
  for (size_t i = 0; i < losses.size(); ++i)
    EXPECT_NEAR(losses[i], reference[i], 1e-3 * reference[i]) << "step " << i + 1;
  EXPECT_LT(losses.back(), 0.9 * losses.front()) << "it learns";
}

INSTANTIATE_TEST_SUITE_P(Several, BatchNormSync,
                         ::testing::Combine(::testing::Values("data_parallel", "parallel_criterion", "ddp"),
                                            ::testing::Values(1, 2, 3, 4)),
                         [](const auto& test) {
                           return std::string(std::get<0>(test.param)) + "_" + std::to_string(std::get<1>(test.param));
                         });

TEST(BatchNormSyncBits, AreThoseOfOneDeviceWithoutItWhereThereIsOne) {
  StrategyOptions options = single_like(sync_on("single", 1));
  const State sync = trained(options, 3, 22, 0.05).state;
  options.batch_norm = BatchNormMode::local;
  expect_same_bits(trained(options, 3, 22, 0.05).state, sync);
}

TEST(BatchNormSyncBits, AreTheSameUnderEveryStrategyAndWithAnyBuckets) {
  for (const int devices : {2, 3}) {
    SCOPED_TRACE(devices);
    StrategyOptions options = sync_on("ddp", devices);
    options.sgd = {.momentum = 0.9};
    options.micro_batches = 2;
    // The last of these steps has fewer samples than devices and micro-batches.
    const auto state_of = [&] {
      const auto strategy = make_strategy(options);
      train(*strategy, digits(51, 10), 3, 25, 0.05, options.micro_batches);
      EXPECT_EQ(strategy->statistics_spread(), 0.0);
      return strategy->state_dict();
    };
    const State reference = state_of();
    for (const BucketOptions& buckets :
         {BucketOptions{.overlap = false}, BucketOptions{.bucket_mb = 1e-6, .first_bucket_mb = 1e-6}}) {
      options.buckets = buckets;
      expect_same_bits(state_of(), reference);
    }
    options.name = "data_parallel";
    expect_same_bits(state_of(), reference);
  }
}

TEST(BatchNormSyncCosts, AreThreeSmallSumsABatchNormAndMicroBatch) {
  constexpr int kDevices = 3, kSteps = 2, kMicroBatches = 2;
  StrategyOptions options = sync_on("ddp", kDevices);
  options.micro_batches = kMicroBatches;
  const CommCounts sync = trained(options, kSteps, 24, 0.05).sent;
  options.batch_norm = BatchNormMode::local;
  const CommCounts local = trained(options, kSteps, 24, 0.05).sent;
  int64_t floats = 0;
  for (const int64_t channels : kResidualNetChannels) floats += 4 * channels + 1;
  EXPECT_EQ(sync.bytes - local.bytes, int64_t{kSteps} * kMicroBatches * 2 * (kDevices - 1) * 4 * floats);
  EXPECT_EQ(sync.collectives - local.collectives,
            int64_t{kSteps} * kMicroBatches * 3 * static_cast<int64_t>(std::size(kResidualNetChannels)));
}

TEST(BatchNormSyncModels, OfAResNetAreThoseOfOneDevice) {
  StrategyOptions two{.model = "resnet18", .devices = 2, .batch_norm = BatchNormMode::sync};
  const Trained one = trained(single_like(two), 1, 5, kAllGradient), got = trained(two, 1, 5, kAllGradient);
  EXPECT_NEAR(got.losses[0], one.losses[0], 1e-5 * one.losses[0]);
  // There are seventeen batch norms of five samples, and each amplifies rounding errors.
  expect_close(got.state, one.state, 5e-3);
  two.batch_norm = BatchNormMode::local;
  const CommCounts local = trained(two, 1, 5, kAllGradient).sent;
  EXPECT_EQ(got.sent.bytes - local.bytes, 125'064);
  EXPECT_EQ(got.sent.collectives - local.collectives, 51);
}

}  // namespace batch_norm_sync_test
}  // namespace dptrain::parallel
