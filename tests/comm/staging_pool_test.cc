// Memory that operations between processes reuse.
#include "comm/staging_pool.h"

#include <gtest/gtest.h>

namespace dptrain {
namespace {

TEST(StagingPool, WhatWasGivenBackIsTakenAgain) {
  const auto pool = StagingPool::make();
  StagingPool::Memory first = pool->take(1000);
  const std::byte* at = first.get();
  EXPECT_NE(pool->take(1000).get(), at);
  first.reset();
  // Expects the smallest piece that fits, and none that is much larger than needed.
  const StagingPool::Memory again = pool->take(900);
  const StagingPool::Memory small = pool->take(10);
  EXPECT_TRUE(again != nullptr);
  EXPECT_NE(small.get(), at);
  const StagingPool::Memory other = pool->take(1000);
  EXPECT_TRUE(again.get() == at || other.get() == at);
  EXPECT_NE(again.get(), other.get());
}

TEST(StagingPool, MemoryMayOutliveWhoMadeThePool) {
  StagingPool::Memory memory = StagingPool::make()->take(100);
  memory[99] = std::byte{1};
  EXPECT_EQ(memory[99], std::byte{1});
}

}  // namespace
}  // namespace dptrain
