#pragma once

#if defined(__AVX2__)
#include <immintrin.h>
#endif

#include <cstdint>

#include "ops/random_counter.h"

// Many blocks of a KeyedRandom at once. For *_kernels.cc only: each instruction set compiles its own copy, which no
// other file sees.

namespace dptrain::ops::DPTRAIN_ISA_NAMESPACE {
namespace {

/// `count` in random_words must be a multiple of this.
constexpr int64_t kRandomBlocks = 16;

/// 32-bit numbers, each in the lower half of a 64-bit lane. The upper halves are never read.
#if defined(__AVX512F__)
// The masked forms, with all lanes set: GCC 12 reports the unmasked ones' own temporaries as uninitialized (GCC bug
// 105593).
using Halves = __m512i;
constexpr int kHalves = 8;
inline Halves all(uint32_t value) { return _mm512_set1_epi64(value); }
inline Halves sum(Halves a, Halves b) { return _mm512_maskz_add_epi64(0xff, a, b); }
inline Halves counted_from(uint64_t first) {
  return sum(_mm512_set1_epi64(static_cast<int64_t>(first)), _mm512_setr_epi64(0, 1, 2, 3, 4, 5, 6, 7));
}
inline Halves product(Halves a, Halves b) { return _mm512_maskz_mul_epu32(0xff, a, b); }
/// Uses a shuffle, because products and shifts share a port.
inline Halves upper_of(Halves a) { return _mm512_maskz_shuffle_epi32(0xffff, a, _MM_PERM_DDBB); }
inline Halves mixed(Halves a, Halves b, Halves c) { return _mm512_ternarylogic_epi64(a, b, c, 0x96); }
/// Combines the lower halves of both into one lane.
inline Halves joined(Halves lower, Halves upper) {
  return _mm512_mask_shuffle_epi32(lower, 0xaaaa, upper, _MM_PERM_CCAA);
}
/// Writes the words of kHalves blocks, block after block; `c` has one vector for each of the four words.
inline void write_blocks(uint32_t* to, const Halves (&c)[4]) {
  const Halves first = joined(c[0], c[1]), second = joined(c[2], c[3]);
  _mm512_storeu_si512(to, _mm512_permutex2var_epi64(first, _mm512_setr_epi64(0, 8, 1, 9, 2, 10, 3, 11), second));
  _mm512_storeu_si512(to + 16, _mm512_permutex2var_epi64(first, _mm512_setr_epi64(4, 12, 5, 13, 6, 14, 7, 15), second));
}
#elif defined(__AVX2__)
using Halves = __m256i;
constexpr int kHalves = 4;
inline Halves all(uint32_t value) { return _mm256_set1_epi64x(value); }
inline Halves sum(Halves a, Halves b) { return _mm256_add_epi64(a, b); }
inline Halves counted_from(uint64_t first) {
  return sum(_mm256_set1_epi64x(static_cast<int64_t>(first)), _mm256_setr_epi64x(0, 1, 2, 3));
}
inline Halves product(Halves a, Halves b) { return _mm256_mul_epu32(a, b); }
inline Halves upper_of(Halves a) { return _mm256_srli_epi64(a, 32); }
inline Halves mixed(Halves a, Halves b, Halves c) { return _mm256_xor_si256(_mm256_xor_si256(a, b), c); }
/// Combines the lower halves of both into one lane.
inline Halves joined(Halves lower, Halves upper) {
  return _mm256_blend_epi32(lower, _mm256_slli_epi64(upper, 32), 0xaa);
}
/// Writes the words of kHalves blocks, block after block; `c` has one vector for each of the four words.
inline void write_blocks(uint32_t* to, const Halves (&c)[4]) {
  const Halves first = joined(c[0], c[1]), second = joined(c[2], c[3]);
  const Halves even = _mm256_unpacklo_epi64(first, second), odd = _mm256_unpackhi_epi64(first, second);
  auto* blocks = reinterpret_cast<__m256i*>(to);
  _mm256_storeu_si256(blocks, _mm256_permute2x128_si256(even, odd, 0x20));
  _mm256_storeu_si256(blocks + 1, _mm256_permute2x128_si256(even, odd, 0x31));
}
#else
using Halves = uint64_t;
constexpr int kHalves = 1;
inline Halves all(uint32_t value) { return value; }
inline Halves sum(Halves a, Halves b) { return a + b; }
inline Halves counted_from(uint64_t first) { return first; }
inline Halves product(Halves a, Halves b) { return (a & 0xffffffffu) * (b & 0xffffffffu); }
inline Halves upper_of(Halves a) { return a >> 32; }
inline Halves mixed(Halves a, Halves b, Halves c) { return a ^ b ^ c; }
inline void write_blocks(uint32_t* to, const Halves (&c)[4]) {
  for (int word = 0; word < 4; ++word) to[word] = static_cast<uint32_t>(c[word]);
}
#endif

/// Computes the words of kGroups * kHalves blocks from number `first` on. Groups are interleaved, which hides the
/// latency of products.
template <int kGroups>
inline void random_groups(const RandomCounter& counter, uint64_t first, uint32_t* __restrict words) {
  const Halves factor0 = all(0xD2511F53u), factor1 = all(0xCD9E8D57u);
  Halves c[kGroups][4];
  for (int g = 0; g < kGroups; ++g) {
    c[g][0] = counted_from(first + static_cast<uint64_t>(g * kHalves));
    c[g][1] = sum(all(counter.upper), upper_of(c[g][0]));
    c[g][2] = all(counter.subject), c[g][3] = all(counter.epoch);
  }
  uint32_t key0 = counter.key[0], key1 = counter.key[1];
  for (int round = 0; round < 10; ++round) {
    const Halves keys0 = all(key0), keys1 = all(key1);
    for (int g = 0; g < kGroups; ++g) {
      const Halves product0 = product(factor0, c[g][0]), product1 = product(factor1, c[g][2]);
      c[g][0] = mixed(upper_of(product1), c[g][1], keys0);
      c[g][1] = product1;
      c[g][2] = mixed(upper_of(product0), c[g][3], keys1);
      c[g][3] = product0;
    }
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  for (int g = 0; g < kGroups; ++g) write_blocks(words + 4 * g * kHalves, c[g]);
}

/// Computes the four words of each of `count` blocks from number `first` on, with philox4x32 as in base/random.h.
/// `count` is a multiple of kRandomBlocks.
inline void random_words(const RandomCounter& counter, uint64_t first, int64_t count, uint32_t* __restrict words) {
  int64_t block = 0;
  for (; block + 4 * kHalves <= count; block += 4 * kHalves)
    random_groups<4>(counter, first + static_cast<uint64_t>(block), words + 4 * block);
  for (; block < count; block += 2 * kHalves)
    random_groups<2>(counter, first + static_cast<uint64_t>(block), words + 4 * block);
}

}  // namespace
}  // namespace dptrain::ops::DPTRAIN_ISA_NAMESPACE
