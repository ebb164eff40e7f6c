// Strategies over different GPUs: NCCL carries their exchanges, and the devices record them.

#include <gtest/gtest.h>

#include <string>

#include "device/with_cuda.h"
#include "parallel/gpu_strategies.h"
#include "parallel/residual_net.h"

namespace dptrain::parallel {
namespace nccl_strategies_test {

/// Runs on machines with several GPUs. A machine with one GPU misses nothing else by skipping it.
class NcclStrategies : public CudaStrategies {
 protected:
  void SetUp() override {
    CudaStrategies::SetUp();
    if (cuda_devices().size() < 2 || !kWithNccl)
      GTEST_SKIP() << "needs NCCL and two GPUs, there is " << cuda_devices().size();
  }
  const std::vector<DeviceId> two_ = {{DeviceKind::cuda, 0}, {DeviceKind::cuda, 1}};
};

TEST_F(NcclStrategies, OverDifferentGpusLearnAlike) {
  const BucketOptions small{.bucket_mb = 0.1, .first_bucket_mb = 0.01};
  const auto tree = make_strategy({.buckets = small, .list = two_});
  const auto nccl = make_strategy({.buckets = small, .list = two_, .deterministic = false});
  const ImageDatasets data = digits(96, 10);
  const auto expected = train(*tree, data, 6, 16, 0.05), losses = train(*nccl, data, 6, 16, 0.05);
  for (size_t step = 0; step < 6; ++step) EXPECT_NEAR(losses[step], expected[step], 1e-5 * expected[step]);
  // Collectives go bucket by bucket, also in the first step, which isn't recorded.
  const CommCounts counts = nccl->take_costs(0).communication;
  EXPECT_EQ(counts.collectives % 6, 0);
  EXPECT_GT(counts.collectives, 6);
  EXPECT_EQ(counts.bytes, tree->take_costs(0).communication.bytes);
}

/// NCCL gathers and sums sharded tensors within recorded sections: all steps but the first of each size are graphs.
TEST_F(NcclStrategies, RecordExchangesOfWhatIsDealtOut) {
  StrategyOptions options{.list = two_};
  options.buckets = {.bucket_mb = 0.1, .first_bucket_mb = 0.01};
  options.fsdp.unit_mb = 0.05;
  options.clip_norm = 0.5;
  for (const Precision precision : {Precision::fp32, Precision::bf16, Precision::fp16})
    for (const char* name : {"ddp_sharded", "kvstore", "fsdp", "fsdp_kept"}) {
      SCOPED_TRACE(::testing::Message() << name << ", precision " << static_cast<int>(precision));
      options.name = name;
      options.precision = precision;
      const auto steps = [&](bool deterministic, bool records, int64_t graph_steps) {
        options.deterministic = deterministic;
        options.records = records;
        const auto strategy = make_strategy(options);
        // The last of the three steps has 8 digits.
        for (int epoch = 0; epoch < 3; ++epoch) train(*strategy, digits(40, 10), 3, 16, 0.05);
        for (int rank = 0; rank < 2; ++rank) EXPECT_EQ(strategy->take_costs(rank).graph_steps, graph_steps);
        return strategy->state_dict();
      };
      // Two numbers have only one sum, whatever the order.
      expect_same_bits(steps(false, true, 7), steps(true, false, 0));
    }
}

/// Exchanges within a replica and between replicas go over communicators of their own, in one graph.
TEST_F(NcclStrategies, RecordReplicasOfShardedWeights) {
  if (cuda_devices().size() < 4) GTEST_SKIP() << "needs four GPUs, there are " << cuda_devices().size();
  StrategyOptions options{.name = "fsdp", .sgd = {.momentum = 0.9}, .clip_norm = 0.5};
  for (int gpu = 0; gpu < 4; ++gpu) options.list.push_back({DeviceKind::cuda, gpu});
  options.fsdp = {.unit_mb = 0.05, .replicas = 2};
  const auto steps = [&](bool deterministic, bool records, int64_t graph_steps) {
    options.deterministic = deterministic;
    options.records = records;
    const auto strategy = make_strategy(options);
    // The last of the three steps has 8 digits.
    for (int epoch = 0; epoch < 3; ++epoch) train(*strategy, digits(40, 10), 3, 16, 0.05);
    std::vector<CommCounts> counts;
    for (int rank = 0; rank < 4; ++rank) {
      const RankCosts costs = strategy->take_costs(rank);
      EXPECT_EQ(costs.graph_steps, graph_steps);
      counts.push_back(costs.communication);
    }
    return std::pair(strategy->state_dict(), counts);
  };
  const auto [recorded, counts] = steps(false, true, 7);
  const auto [done, counts_done] = steps(false, false, 0);
  // Each sum has two numbers, which have only one sum, whatever the order.
  expect_same_bits(recorded, done);
  expect_same_bits(recorded, steps(true, false, 0).first);
  for (size_t rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(counts[rank].bytes, counts_done[rank].bytes);
    EXPECT_EQ(counts[rank].collectives, counts_done[rank].collectives);
  }
}

/// The last batch has fewer micro-batches, so its steps exchange less often than the others.
TEST_F(NcclStrategies, CountWhatEachReplaySends) {
  StrategyOptions options{.name = "fsdp", .list = two_, .deterministic = false};
  const auto counts_of_epochs = [&](bool records) {
    options.records = records;
    const auto strategy = make_strategy(options);
    std::vector<CommCounts> counts;
    for (int epoch = 0; epoch < 4; ++epoch) {
      train(*strategy, digits(29, 10), 4, 9, 0.05, 4);
      counts.push_back(strategy->take_costs(0).communication);
    }
    return counts;
  };
  const auto recorded = counts_of_epochs(true), done = counts_of_epochs(false);
  for (size_t epoch = 0; epoch < 4; ++epoch) {
    EXPECT_EQ(recorded[epoch].bytes, done[epoch].bytes) << "epoch " << epoch + 1;
    EXPECT_EQ(recorded[epoch].collectives, done[epoch].collectives) << "epoch " << epoch + 1;
  }
}

/// With three ranks, the last rank has no part of small ranges, and NCCL chooses its own order of sums.
TEST_F(NcclStrategies, RecordExchangesOfThree) {
  if (cuda_devices().size() < 3) GTEST_SKIP() << "needs three GPUs, there are " << cuda_devices().size();
  StrategyOptions options{.list = {kGpu, {DeviceKind::cuda, 1}, {DeviceKind::cuda, 2}}};
  options.adam = optim::AdamSettings{};
  options.clip_norm = 0.5;
  for (const char* name : {"ddp", "ddp_sharded", "kvstore", "fsdp"}) {
    SCOPED_TRACE(name);
    options.name = name;
    const auto outcome = [&](bool deterministic) {
      options.deterministic = deterministic;
      const auto strategy = make_strategy(options);
      auto losses = train(*strategy, digits(88, 10), 6, 16, 0.001);  // the last batch has 8
      std::vector<CommCounts> counts;
      for (int rank = 0; rank < 3; ++rank) {
        const RankCosts costs = strategy->take_costs(rank);
        counts.push_back(costs.communication);
        EXPECT_TRUE(deterministic || costs.graph_steps == 4) << costs.graph_steps;
      }
      return std::pair(std::move(losses), std::move(counts));
    };
    const auto [losses, counts] = outcome(false);
    const auto [expected, expected_counts] = outcome(true);
    for (size_t step = 0; step < losses.size(); ++step)
      EXPECT_NEAR(losses[step], expected[step], 1e-4 * expected[step]) << "step " << step + 1;
    int64_t bytes = 0, expected_bytes = 0;
    for (int rank = 0; rank < 3; ++rank) {
      bytes += counts[static_cast<size_t>(rank)].bytes;
      expected_bytes += expected_counts[static_cast<size_t>(rank)].bytes;
    }
    EXPECT_EQ(bytes, expected_bytes);
  }
}

/// On three GPUs NCCL chooses the order of sums. A step that isn't recorded yet has the same order as a replayed one.
TEST_F(NcclStrategies, GoOnToTheSameBits) {
  if (cuda_devices().size() < 3) GTEST_SKIP() << "needs three GPUs, there are " << cuda_devices().size();
  StrategyOptions options{
      .sgd = {.momentum = 0.9}, .list = {kGpu, {DeviceKind::cuda, 1}, {DeviceKind::cuda, 2}}, .deterministic = false};
  options.buckets = {.bucket_mb = 0.1, .first_bucket_mb = 0.01};
  for (const char* name : {"ddp", "ddp_sharded", "kvstore", "fsdp"})
    for (const bool records : {true, false}) {
      SCOPED_TRACE(::testing::Message() << name << (records ? "" : ", not recorded"));
      options.name = name;
      options.records = records;
      const auto whole = make_strategy(options);
      train(*whole, digits(80, 10), 5, 16, 0.05);
      const TrainingState between = whole->training_state();
      train(*whole, digits(80, 10), 5, 16, 0.05);
      const auto resumed = make_strategy(options);
      resumed->restore(between);
      train(*resumed, digits(80, 10), 5, 16, 0.05);
      expect_same_bits(resumed->state_dict(), whole->state_dict());
    }
}

/// Batch norms sum over GPUs many times in the forward and backward passes; these sums are recorded with the passes.
TEST_F(NcclStrategies, RecordBatchStatisticsOfAllGpus) {
  StrategyOptions options{
      .net = residual_net(), .sgd = {.momentum = 0.9}, .list = two_, .batch_norm = BatchNormMode::sync};
  for (const char* name : {"ddp", "ddp_sharded", "fsdp", "kvstore", "ddp_powersgd"}) {
    SCOPED_TRACE(name);
    options.name = name;
    const auto state = [&](bool deterministic, int64_t graph_steps) {
      options.deterministic = deterministic;
      const auto strategy = make_strategy(options);
      // The last step has one digit, so only one GPU has a sample.
      for (int epoch = 0; epoch < 3; ++epoch) train(*strategy, digits(17, 10), 3, 8, 0.05);
      for (int rank = 0; rank < 2; ++rank) EXPECT_EQ(strategy->take_costs(rank).graph_steps, graph_steps);
      return strategy->state_dict();
    };
    expect_same_bits(state(false, std::string(name) == "ddp_powersgd" ? 0 : 7), state(true, 0));
  }
}

/// Of 9 digits the second GPU has 4 and of 10 it has 5; the first GPU has 5 of both. So a size may be new to one GPU
/// only.
TEST_F(NcclStrategies, RecordTogetherWhatIsNewToOneOfThem) {
  const auto gpus = make_strategy({.list = two_, .deterministic = false});
  const auto cpu = make_strategy({.name = "single", .devices = 1});
  const ImageDatasets data = digits(40, 10);
  for (const int64_t batch : {9, 10, 9, 9, 10, 10, 9, 8, 9}) {
    const double expected = train(*cpu, data, 1, batch, 0.05)[0];
    EXPECT_NEAR(train(*gpus, data, 1, batch, 0.05)[0], expected, 1e-5 * expected) << batch;
  }
}

}  // namespace nccl_strategies_test
}  // namespace dptrain::parallel
