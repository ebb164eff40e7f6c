// Sums over logical shards have one order, however many threads compute them and whichever finish first.
#include "parallel/shard_sum.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <random>
#include <thread>

#include "comm/tree_sum.h"
#include "parallel/worker_threads.h"
#include "support/test_device.h"

namespace dptrain::parallel {
namespace shard_sum_test {

constexpr int64_t kElements = 1000;

/// Values of very different magnitudes, whose sums depend on the order.
std::vector<float> values_of(int shard) {
  std::vector<float> values(kElements);
  for (int64_t i = 0; i < kElements; ++i)
    values[static_cast<size_t>(i)] =
        std::ldexp(static_cast<float>((7 * i + 13 * shard) % 101 - 50), (shard * 5 + static_cast<int>(i)) % 23);
  return values;
}

std::vector<float> tree_sum(int shards) {
  std::vector<std::vector<float>> inputs;
  TreeSum sum{.inputs = {}, .outputs = {}, .elements = kElements};
  for (int shard = 0; shard < shards; ++shard) inputs.push_back(values_of(shard));
  for (const auto& input : inputs) sum.inputs.push_back(input.data());
  std::vector<float> result(kElements);
  sum.outputs = {result.data()};
  sum.run(0, kElements);
  return result;
}

/// Adds a shard, as a thread does.
void add(ShardSum& sum, int shard, Device& device) {
  Tensor buffer = sum.begin(shard);
  buffer.copy_from(Tensor::from(device, {kElements}, values_of(shard)));
  sum.add(shard, std::move(buffer), device);
}

TEST(ShardSum, IsThatOfTheTreeInWhateverOrderTheyCome) {
  const auto device = testing::test_device();
  std::mt19937 random(1);
  for (const int shards : {1, 2, 3, 4, 6, 7, 8, 12, 16}) {
    ShardSum sum(*device, kElements, shards);
    std::vector<int> order;
    for (int shard = 0; shard < shards; ++shard) order.push_back(shard);
    for (int trial = 0; trial < 20; ++trial) {
      std::vector<Tensor> buffers;
      for (int shard = 0; shard < shards; ++shard) {
        buffers.push_back(sum.begin(shard));
        buffers.back().copy_from(Tensor::from(*device, {kElements}, values_of(shard)));
      }
      for (const int shard : order) sum.add(shard, std::move(buffers[static_cast<size_t>(shard)]), *device);
      EXPECT_EQ(sum.take().values(), tree_sum(shards)) << shards << " shards";
      std::ranges::shuffle(order, random);
    }
  }
}

TEST(ShardSum, OneAfterTheOtherNeedsLogarithmicallyMany) {
  const auto device = testing::test_device();
  for (const int shards : {1, 2, 3, 8, 12, 64}) {
    ShardSum sum(*device, kElements, shards);
    for (int shard = 0; shard < shards; ++shard) add(sum, shard, *device);
    EXPECT_EQ(sum.most_held(), std::bit_width(static_cast<unsigned>(shards))) << shards << " shards";
  }
}

/// Several threads share the shards in turn. The parameter is the slowest thread: the first or the last.
class ShardSumOfThreads : public ::testing::TestWithParam<int> {};

TEST_P(ShardSumOfThreads, IsThatOfTheTreeAndHoldsNoMoreHoweverLateOneIs) {
  constexpr int kShards = 64, kThreads = 4;
  const auto device = testing::test_device();
  ShardSum sum(*device, kElements, kShards);
  WorkerThreads threads(kThreads);
  for (int trial = 0; trial < 3; ++trial) {
    threads.run([&](int worker) {
      for (int shard = worker; shard < kShards; shard += kThreads) {
        Tensor buffer = sum.begin(shard);
        // Long enough for the other threads to get far ahead unless something holds them back.
        if (worker == GetParam()) std::this_thread::sleep_for(std::chrono::milliseconds(2));
        buffer.copy_from(Tensor::from(*device, {kElements}, values_of(shard)));
        sum.add(shard, std::move(buffer), *device);
      }
    });
    EXPECT_EQ(sum.take().values(), tree_sum(kShards));
  }
  EXPECT_LE(sum.most_held(), kThreads + 5) << "of 64 - 4 + 1 shards whole subtrees are at most 5";
}

INSTANTIATE_TEST_SUITE_P(Late, ShardSumOfThreads, ::testing::Values(0, 3));

TEST(ShardSum, NobodyWaitsForAThreadThatGaveUp) {
  const auto device = testing::test_device();
  ShardSum sum(*device, kElements, 4);
  std::thread waits([&] { EXPECT_FALSE(sum.begin(1).defined()); });
  sum.give_up();
  waits.join();
  EXPECT_FALSE(sum.begin(0).defined());
}

}  // namespace shard_sum_test
}  // namespace dptrain::parallel
