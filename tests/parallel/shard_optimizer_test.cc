// ddp with shard_optimizer gives bit-identical weights to ddp in a part of the optimizer's memory, and resumes from any
// strategy's checkpoint.
#include <gtest/gtest.h>

#include "parallel/checkpointed.h"
#include "parallel/digits.h"
#include "parallel/owned_range.h"
#include "parallel/trained_state.h"

namespace dptrain::parallel {
namespace shard_optimizer_test {

TEST(EqualRanges, CoverEverythingInMultiplesOfSixteen) {
  for (const int64_t elements : {int64_t{0}, int64_t{16}, int64_t{48}, int64_t{61'712}})
    for (int ranks = 1; ranks <= 8; ++ranks) {
      SCOPED_TRACE(::testing::Message() << elements << " over " << ranks);
      const auto ranges = equal_ranges(elements, ranks);
      ASSERT_EQ(static_cast<int>(ranges.size()), ranks);
      int64_t end = 0;
      for (int rank = 0; rank < ranks; ++rank) {
        const OwnedRange& range = ranges[static_cast<size_t>(rank)];
        EXPECT_EQ(range.owner, rank);
        EXPECT_EQ(range.begin, end);
        EXPECT_EQ(range.begin % 16, 0);
        EXPECT_LT(std::abs(range.elements() - elements / ranks), 16);
        end = range.end;
      }
      EXPECT_EQ(end, elements);
    }
}

TEST(ShardOptimizer, EndsInTheBitsOfDdp) {
  for (const int devices : {1, 2, 3, 4})
    for (const BucketOptions& buckets : {BucketOptions{}, BucketOptions{.bucket_mb = 0.02, .first_bucket_mb = 0.001},
                                         BucketOptions{.overlap = false}}) {
      SCOPED_TRACE(::testing::Message() << devices << " devices, buckets of " << buckets.bucket_mb);
      StrategyOptions options = adam_on("ddp", devices);
      options.buckets = buckets;
      options.micro_batches = 3;
      const TrainingState whole = state_after(options);
      options.name = "ddp_sharded";
      const TrainingState dealt = state_after(options);
      expect_same_bits(dealt.model, whole.model);
      expect_same_bits(dealt.optimizer, whole.optimizer);
    }
}

TEST(ShardOptimizer, ClipsAndAveragesInTheBitsOfDdp) {
  for (const int devices : {1, 2, 3, 4, 8}) {
    SCOPED_TRACE(devices);
    StrategyOptions options = adam_on("ddp", devices);
    options.clip_norm = 0.5;
    options.average_decay = 0.9;
    const TrainingState whole = state_after(options);
    options.name = "ddp_sharded";
    const TrainingState dealt = state_after(options);
    expect_same_bits(dealt.model, whole.model);
    expect_same_bits(dealt.optimizer, whole.optimizer);
    expect_same_bits(dealt.average, whole.average);
  }
}

TEST(ShardOptimizer, KeepsBf16CopiesInTheBitsOfDdp) {
  StrategyOptions options = adam_on("ddp", 2);
  options.precision = Precision::bf16;
  const TrainingState whole = state_after(options);
  options.name = "ddp_sharded";
  expect_same_bits(state_after(options).model, whole.model);
}

TEST(ShardOptimizer, ADeviceHasStateForItsPartAlone) {
  const auto optimizer_bytes = [](const char* name, int devices) {
    const auto strategy = make_strategy(adam_on(name, devices));
    std::vector<int64_t> bytes;
    for (int rank = 0; rank < devices; ++rank)
      bytes.push_back(strategy->device(rank).allocator().in_use()[MemoryPurpose::optimizer]);
    return bytes;
  };
  const int64_t whole = optimizer_bytes("ddp", 1)[0];
  for (const int devices : {2, 3, 4})
    for (const int64_t part : optimizer_bytes("ddp_sharded", devices))
      // Each of Adam's two tensors is at most 16 elements longer than an equal part, and blocks are whole cache lines.
      EXPECT_NEAR(static_cast<double>(part), static_cast<double>(whole) / devices, 2 * (64 + 256)) << devices;
}

TEST(ShardOptimizer, SendsWhatDdpSends) {
  const auto bytes_of = [](const StrategyOptions& options) {
    const auto strategy = make_strategy(options);
    train(*strategy, digits(50, 10), 1, 50, 0.01);
    strategy->training_state();  // reading the state must not count as a step's bytes
    int64_t bytes = 0;
    for (int rank = 0; rank < options.devices; ++rank) bytes += strategy->take_costs(rank).communication.bytes;
    return bytes;
  };
  for (const int devices : {1, 2, 3, 4}) {
    SCOPED_TRACE(devices);
    const int64_t ddp = bytes_of(adam_on("ddp", devices));
    EXPECT_EQ(bytes_of(adam_on("ddp_sharded", devices)), ddp);
    StrategyOptions clipped = adam_on("ddp_sharded", devices);
    clipped.clip_norm = 0.5;
    EXPECT_EQ(bytes_of(clipped), ddp + 2 * (devices - 1) * 128) << "a sum of squares";
    StrategyOptions by_layers{.name = "ddp_sharded", .devices = devices, .lamb = optim::LambSettings{}};
    EXPECT_EQ(bytes_of(by_layers), ddp + 2 * (devices - 1) * 2 * 128 * 8) << "two sums of each parameter";
  }
}

TEST(ShardOptimizer, CheckpointsAreThoseOfDdpOnAnyDevices) {
  const Datasets data = digits(400, 10);
  const auto goes_on = [&](const TrainingState& from, const char* name, int devices) {
    const auto strategy = make_strategy(adam_on(name, devices));
    strategy->restore(from);
    train(*strategy, data, 3, 40, 0.01);
    return strategy->training_state();
  };
  const TrainingState start = state_after(adam_on("ddp_sharded", 3));
  expect_same_bits(state_after(adam_on("ddp", 3)).optimizer, start.optimizer);
  for (const int devices : {1, 2, 4}) {
    const TrainingState whole = goes_on(start, "ddp", devices), dealt = goes_on(start, "ddp_sharded", devices);
    expect_same_bits(dealt.model, whole.model);
    expect_same_bits(dealt.optimizer, whole.optimizer);
  }
}

}  // namespace shard_optimizer_test
}  // namespace dptrain::parallel
