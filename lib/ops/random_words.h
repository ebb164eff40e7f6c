#pragma once

#include <cstdint>

// Many blocks of a KeyedRandom at once, for *_kernels.cc only: each instruction set gets its own, which no other file
// can see.

namespace dptrain::ops {

/// What base/random.h's KeyedRandom is made from, and the upper half of its blocks' numbers.
struct RandomCounter {
  uint32_t key[2];
  uint32_t upper;
  uint32_t subject;
  uint32_t epoch;
};

}  // namespace dptrain::ops

namespace dptrain::ops::DPTRAIN_ISA_NAMESPACE {
namespace {

/// Blocks that are computed side by side.
constexpr int64_t kRandomBlocks = 16;

/// The four words of each of `count` blocks from number `first` on, by philox4x32 as base/random.h has it. `count` is a
/// multiple of kRandomBlocks.
inline void random_words(const RandomCounter& counter, uint32_t first, int64_t count, uint32_t* __restrict words) {
  for (int64_t block = 0; block < count; block += kRandomBlocks) {
    for (int64_t i = 0; i < kRandomBlocks; ++i) {
      uint32_t c0 = first + static_cast<uint32_t>(block + i), c1 = counter.upper, c2 = counter.subject,
               c3 = counter.epoch;
      uint32_t key0 = counter.key[0], key1 = counter.key[1];
      for (int round = 0; round < 10; ++round) {
        const uint64_t product0 = uint64_t{0xD2511F53u} * c0, product1 = uint64_t{0xCD9E8D57u} * c2;
        c0 = static_cast<uint32_t>(product1 >> 32) ^ c1 ^ key0;
        c1 = static_cast<uint32_t>(product1);
        c2 = static_cast<uint32_t>(product0 >> 32) ^ c3 ^ key1;
        c3 = static_cast<uint32_t>(product0);
        key0 += 0x9E3779B9u;
        key1 += 0xBB67AE85u;
      }
      uint32_t* to = words + 4 * (block + i);
      to[0] = c0, to[1] = c1, to[2] = c2, to[3] = c3;
    }
  }
}

}  // namespace
}  // namespace dptrain::ops::DPTRAIN_ISA_NAMESPACE
