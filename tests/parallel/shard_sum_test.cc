// Sums over logical shards in one order, however many compute them and whichever come first.
#include "parallel/shard_sum.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <random>

#include "comm/tree_sum.h"
#include "parallel/worker_threads.h"
#include "support/test_device.h"

namespace dptrain::parallel {
namespace {

constexpr int64_t kElements = 1000;

/// Values of very different sizes, whose sums show their order.
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

void add(ShardSum& sum, int shard, Device& device) {
  Tensor buffer = sum.buffer();
  buffer.copy_from(Tensor::from(device, {kElements}, values_of(shard)));
  sum.add(shard, std::move(buffer), device);
}

TEST(ShardSum, IsThatOfTheTreeInWhateverOrderTheyCome) {
  const auto device = testing::test_device();
  std::mt19937 random(1);
  for (const int shards : {1, 2, 4, 8, 16}) {
    ShardSum sum(*device, kElements, shards);
    std::vector<int> order;
    for (int shard = 0; shard < shards; ++shard) order.push_back(shard);
    for (int trial = 0; trial < 20; ++trial) {
      for (const int shard : order) add(sum, shard, *device);
      EXPECT_EQ(sum.take().values(), tree_sum(shards)) << shards << " shards";
      std::ranges::shuffle(order, random);
    }
  }
}

TEST(ShardSum, OneAfterTheOtherNeedsLogarithmicallyMany) {
  const auto device = testing::test_device();
  for (const int shards : {1, 2, 8, 64}) {
    ShardSum sum(*device, kElements, shards);
    for (int shard = 0; shard < shards; ++shard) add(sum, shard, *device);
    EXPECT_LE(sum.most_held(), 1 + std::countr_zero(static_cast<unsigned>(shards)));
  }
}

TEST(ShardSum, ManyThreadsMayAdd) {
  constexpr int kShards = 64, kThreads = 4;
  const auto device = testing::test_device();
  ShardSum sum(*device, kElements, kShards);
  WorkerThreads threads(kThreads);
  for (int trial = 0; trial < 5; ++trial) {
    threads.run([&](int worker) {
      for (int shard = worker; shard < kShards; shard += kThreads) add(sum, shard, *device);
    });
    EXPECT_EQ(sum.take().values(), tree_sum(kShards));
  }
}

}  // namespace
}  // namespace dptrain::parallel
