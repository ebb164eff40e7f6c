// What the caching allocator counts, keeps and refuses.

#include "device/allocator.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <set>
#include <thread>
#include <vector>

#include "support/expect_error.h"

namespace dptrain {
namespace {

using enum MemoryPurpose;

constexpr int64_t kLarge = int64_t{4} << 20;

/// Heap memory that counts allocated bytes, and has no more than `capacity`.
class CountedHeap final : public MemorySource {
 public:
  void* take(int64_t bytes) override {
    if (out_bytes + bytes > capacity) return nullptr;
    out_bytes += bytes;
    ++takes;
    return std::aligned_alloc(64, static_cast<size_t>(bytes));
  }
  void give_back(void* memory, int64_t bytes) noexcept override {
    out_bytes -= bytes;
    std::free(memory);
  }
  bool claim(int64_t bytes) override {
    const bool is_there = claimed + bytes <= claimable;
    if (is_there) claimed += bytes;
    return is_there;
  }
  void give_up(int64_t bytes) noexcept override { claimed -= bytes; }
  bool costs_once_written() const override { return paged; }
  void discard(void*, int64_t bytes) noexcept override { discarded_bytes += bytes; }
  int64_t segment_bytes(int64_t wanted) const override { return std::max(wanted, segment); }
  bool paged = false;
  int64_t discarded_bytes = 0;
  int64_t segment = 0;
  int64_t capacity = int64_t{1} << 40;
  int64_t out_bytes = 0;
  int64_t claimable = int64_t{1} << 40;
  int64_t claimed = 0;
  int takes = 0;
};

class Allocator : public ::testing::Test {
 protected:
  CountedHeap heap_;
  CachingAllocator allocator_{"cpu:3", heap_};
};

TEST_F(Allocator, CountsByPurpose) {
  const auto weights = allocator_.allocate(1024, MemoryPurpose::weights);
  const auto first = allocator_.allocate(64, activations);
  const auto second = allocator_.allocate(128, activations);
  EXPECT_EQ(allocator_.in_use()[MemoryPurpose::weights], 1024);
  EXPECT_EQ(allocator_.in_use()[activations], 192);
  EXPECT_EQ(allocator_.in_use()[communication], 0);
  EXPECT_EQ(allocator_.in_use().total_bytes(), 1216);
  allocator_.free(first, activations);
  EXPECT_EQ(allocator_.in_use()[activations], 128);
  allocator_.free(second, activations);
  allocator_.free(weights, MemoryPurpose::weights);
  EXPECT_EQ(allocator_.in_use().total_bytes(), 0);
}

TEST_F(Allocator, BlocksAreAlignedAndLargeEnough) {
  for (const int64_t bytes : {0, 1, 63, 64, 65, 1000, 1025, 100'001}) {
    const auto block = allocator_.allocate(bytes, workspace);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(block.memory) % 64, 0u);
    EXPECT_EQ(block.bytes % 64, 0);
    EXPECT_GE(block.bytes, std::max<int64_t>(bytes, 64));
    // Rounding wastes at most an eighth, once a block is larger than a few cache lines.
    EXPECT_LE(block.bytes, std::max<int64_t>(bytes + 64, bytes + bytes / 8));
    allocator_.free(block, workspace);
  }
}

TEST_F(Allocator, RemembersThePeakAndWhatItHeld) {
  const auto weights = allocator_.allocate(1024, MemoryPurpose::weights);
  const auto scratch = allocator_.allocate(2048, workspace);
  allocator_.free(scratch, workspace);
  const auto gradient = allocator_.allocate(512, gradients);
  EXPECT_EQ(allocator_.peak_bytes(), 3072);
  EXPECT_EQ(allocator_.at_peak()[workspace], 2048);
  EXPECT_EQ(allocator_.at_peak()[gradients], 0);
  allocator_.reset_peak();
  EXPECT_EQ(allocator_.peak_bytes(), 1536);
  EXPECT_EQ(allocator_.at_peak()[workspace], 0);
  EXPECT_EQ(allocator_.at_peak()[gradients], 512);
  allocator_.free(gradient, gradients);
  allocator_.free(weights, MemoryPurpose::weights);
  EXPECT_EQ(allocator_.peak_bytes(), 1536);
}

TEST_F(Allocator, UsesFreedBlocksAgain) {
  const auto block = allocator_.allocate(1000, activations);
  allocator_.free(block, activations);
  const auto again = allocator_.allocate(990, gradients);
  EXPECT_EQ(again.memory, block.memory);
  EXPECT_EQ(heap_.takes, 1);
  EXPECT_EQ(allocator_.in_use()[gradients], again.bytes);
  allocator_.free(again, gradients);
}

TEST_F(Allocator, CutsALargeBlockAndJoinsItsPiecesAgain) {
  const auto whole = allocator_.allocate(3 * kLarge, activations);
  allocator_.free(whole, activations);
  const auto first = allocator_.allocate(kLarge, activations), second = allocator_.allocate(kLarge, activations),
             third = allocator_.allocate(kLarge, activations);
  EXPECT_EQ(heap_.takes, 1);
  const std::set<void*> places = {first.memory, second.memory, third.memory};
  EXPECT_EQ(places.size(), 3u);
  for (const auto& block : {first, third, second}) allocator_.free(block, activations);
  const auto again = allocator_.allocate(3 * kLarge, activations);
  EXPECT_EQ(again.memory, whole.memory);
  EXPECT_EQ(heap_.takes, 1);
  allocator_.free(again, activations);
}

TEST_F(Allocator, TakesTheSmallestBlockThatFits) {
  const auto large = allocator_.allocate(4 * kLarge, activations),
             medium = allocator_.allocate(2 * kLarge, activations);
  allocator_.free(large, activations);
  allocator_.free(medium, activations);
  const auto block = allocator_.allocate(kLarge + 64, activations);
  EXPECT_EQ(block.memory, medium.memory);
  allocator_.free(block, activations);
}

TEST_F(Allocator, LeavesTheNewestSegmentAsItCameWhereMemoryCostsOnceWritten) {
  heap_.paged = true;
  heap_.segment = 16 * kLarge;
  const auto kept = allocator_.allocate(kLarge, MemoryPurpose::weights),
             freed = allocator_.allocate(15 * kLarge, activations);
  const auto larger = allocator_.allocate(12 * kLarge, activations);  // leaves 4 of the second segment
  allocator_.free(freed, activations);
  // The free 4 would be the tighter fit, but the 15 have already been written.
  const auto block = allocator_.allocate(4 * kLarge, activations);
  EXPECT_EQ(block.memory, freed.memory);
  // An allocation that doesn't fit there uses the next segment.
  const auto rest = allocator_.allocate(10 * kLarge, activations), last = allocator_.allocate(4 * kLarge, activations);
  EXPECT_EQ(heap_.takes, 2);
  for (const auto& one : {larger, block, rest, last}) allocator_.free(one, activations);
  allocator_.free(kept, MemoryPurpose::weights);
}

TEST_F(Allocator, DiscardsFreeBlocksOfSegmentsInUse) {
  heap_.segment = 16 * kLarge;
  const auto kept = allocator_.allocate(kLarge, MemoryPurpose::weights),
             freed = allocator_.allocate(2 * kLarge, activations);
  allocator_.free(freed, activations);
  allocator_.release_cached();
  EXPECT_EQ(heap_.out_bytes, 16 * kLarge);
  EXPECT_EQ(heap_.discarded_bytes, 15 * kLarge);
  allocator_.free(kept, MemoryPurpose::weights);
}

/// A GPU may still read freed memory.
TEST_F(Allocator, ReturnsNothingBeforeItIsSettled) {
  heap_.capacity = 2 * kLarge;
  bool settles = false;
  int asked = 0;
  allocator_.settle_before_release([&] {
    ++asked;
    EXPECT_EQ(heap_.out_bytes, 2 * kLarge);
    return settles ? std::shared_ptr<void>(&asked, [&](int*) { EXPECT_EQ(heap_.out_bytes, 0) << "ends too early"; })
                   : nullptr;
  });
  const auto first = allocator_.allocate(kLarge, activations), second = allocator_.allocate(kLarge, activations);
  for (const auto& block : {first, second}) allocator_.free(block, activations);
  allocator_.release_cached();
  EXPECT_EQ(heap_.out_bytes, 2 * kLarge);
  testing::expect_error(ExitCode::device, {"out of memory"}, [&] { allocator_.allocate(2 * kLarge, activations); });
  EXPECT_EQ(asked, 2);
  settles = true;
  const auto both = allocator_.allocate(2 * kLarge, activations);
  EXPECT_EQ(asked, 3);
  allocator_.free(both, activations);
}

TEST_F(Allocator, SegmentsOfTheSourceNeverJoin) {
  std::vector<CachingAllocator::Block> blocks;
  for (int i = 0; i < 4; ++i) blocks.push_back(allocator_.allocate(kLarge, activations));
  for (const auto& block : blocks) allocator_.free(block, activations);
  const auto larger = allocator_.allocate(2 * kLarge, activations);
  EXPECT_EQ(heap_.takes, 5);
  allocator_.free(larger, activations);
  allocator_.release_cached();
  EXPECT_EQ(heap_.out_bytes, 0);
}

TEST_F(Allocator, TakesWholeSegmentsWhereTheSourceHasThem) {
  heap_.segment = 16 * kLarge;
  heap_.capacity = 18 * kLarge;
  const auto first = allocator_.allocate(kLarge, activations), second = allocator_.allocate(14 * kLarge, activations);
  EXPECT_EQ(heap_.takes, 1);
  // There is no other whole segment, but enough memory for the request.
  const auto third = allocator_.allocate(2 * kLarge, activations);
  EXPECT_EQ(heap_.out_bytes, 18 * kLarge);
  for (const auto& block : {first, second, third}) allocator_.free(block, activations);
}

TEST_F(Allocator, SmallBlocksDontCutLargeOnes) {
  const auto large = allocator_.allocate(2 * kLarge, activations);
  allocator_.free(large, activations);
  const auto small = allocator_.allocate(64, activations);
  const auto again = allocator_.allocate(2 * kLarge, activations);
  EXPECT_EQ(again.memory, large.memory);
  allocator_.free(again, activations);
  allocator_.free(small, activations);
}

TEST_F(Allocator, ReturnsEverythingToItsSource) {
  allocator_.free(allocator_.allocate(1000, activations), activations);
  EXPECT_GT(heap_.out_bytes, 0);
  allocator_.release_cached();
  EXPECT_EQ(heap_.out_bytes, 0);
  {
    CachingAllocator other("cpu:4", heap_);
    other.free(other.allocate(1000, activations), activations);
  }
  EXPECT_EQ(heap_.out_bytes, 0);
}

TEST_F(Allocator, GivesUpItsCacheBeforeItRefuses) {
  heap_.capacity = 4096;
  allocator_.free(allocator_.allocate(2048, activations), activations);
  const auto block = allocator_.allocate(4096, activations);
  EXPECT_EQ(heap_.out_bytes, 4096);
  testing::expect_error(ExitCode::device, {"cpu:3", "out of memory", "1024 bytes", "gradients", "4096 bytes in use"},
                        [&] { allocator_.allocate(1024, gradients); });
  allocator_.free(block, activations);
  EXPECT_NO_THROW(allocator_.free(allocator_.allocate(1024, gradients), gradients));
}

TEST_F(Allocator, SharesWhatItsSourceMayGive) {
  heap_.claimable = 4096;
  CachingAllocator other("cpu:4", heap_);
  const auto block = allocator_.allocate(3072, activations);
  testing::expect_error(ExitCode::device, {"cpu:4", "out of memory", "2048 bytes for weights", "smaller model"},
                        [&] { other.allocate(2048, weights); });
  const auto rest = other.allocate(1024, weights);
  allocator_.free(block, activations);
  heap_.capacity = heap_.out_bytes;
  testing::expect_error(ExitCode::device, {"out of memory"}, [&] { other.allocate(4096 - 1024, weights); });
  EXPECT_EQ(heap_.claimed, 1024) << "nothing is claimed for what wasn't there";
  other.free(rest, weights);
  EXPECT_EQ(heap_.claimed, 0);
}

TEST_F(Allocator, KeepsItsLimit) {
  CachingAllocator limited("cpu:3", heap_, 4096);
  const auto weights = limited.allocate(3072, MemoryPurpose::weights);
  testing::expect_error(ExitCode::device,
                        {"cpu:3", "2048 bytes", "activations", "3072 bytes in use",
                         "limit of 4096 bytes (memory_limit); raise it, or use a smaller batch"},
                        [&] { limited.allocate(2048, activations); });
  EXPECT_EQ(limited.in_use().total_bytes(), 3072);
  const auto rest = limited.allocate(1024, activations);
  limited.free(rest, activations);
  limited.free(weights, MemoryPurpose::weights);
}

TEST_F(Allocator, KeepsItsLimitWithLargerCachedBlocks) {
  CachingAllocator limited("cpu:3", heap_, 1600);
  limited.free(limited.allocate(1280, activations), activations);
  const auto first = limited.allocate(512, activations);
  const auto second = limited.allocate(1024, activations);
  EXPECT_LE(limited.in_use().total_bytes(), 1600);
  limited.free(second, activations);
  limited.free(first, activations);
}

TEST_F(Allocator, ServesManyThreads) {
  constexpr int kThreads = 4, kRounds = 500;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int round = 0; round < kRounds; ++round) {
        const auto block = allocator_.allocate(64 * (1 + (round + t) % 7), activations);
        auto* words = static_cast<int*>(block.memory);
        words[0] = t, words[1] = round;
        std::this_thread::yield();
        // Another thread's numbers here would mean that two threads held the same block.
        EXPECT_TRUE(words[0] == t && words[1] == round);
        allocator_.free(block, activations);
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(allocator_.in_use().total_bytes(), 0);
  EXPECT_LE(allocator_.peak_bytes(), kThreads * 7 * 64 * 5 / 4);
}

TEST(MemoryPurpose, NamesAreTheKeysOfTheMetrics) {
  std::set<std::string_view> names;
  for (const MemoryPurpose purpose : kMemoryPurposes) names.insert(memory_purpose_name(purpose));
  EXPECT_EQ(names, (std::set<std::string_view>{"weights", "gradients", "optimizer", "activations", "workspace",
                                               "communication"}));
}

}  // namespace
}  // namespace dptrain
