#pragma once

#include "ops/attention_kernels.h"
#include "ops/float_functions.h"
#include "ops/random_words.h"
#include "ops/vector_lanes.h"

// What attention does with the scores of a query between its products. For *_kernels.cc and *_amx.cc only: each
// instruction set gets its own, which no other file can see.

namespace dptrain::ops::DPTRAIN_ISA_NAMESPACE {
namespace {

inline int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

/// Scratch memory, dealt out piece by piece.
class Scratch {
 public:
  explicit Scratch(float* memory) : next_(memory) {}
  float* take(int64_t floats) {
    float* piece = next_;
    next_ += floats;
    return piece;
  }

 private:
  float* next_;
};

/// Rows of scores are computed in whole vectors; what fills the last one up has no part in the sums.
inline int64_t whole_vectors(int64_t count) { return (count + 15) / 16 * 16; }

/// Random words for a row of keys, which may begin within a block of four.
inline int64_t row_words(int64_t positions) {
  return (whole_vectors(positions) + 3 + 4 * kRandomBlocks - 1) / (4 * kRandomBlocks) * 4 * kRandomBlocks;
}

/// Of 16 random words, a bit each: 1 where the word is at least the threshold.
inline uint16_t bits_kept(const uint32_t* words, uint32_t threshold) {
#if defined(__AVX512F__)
  return _mm512_cmpge_epu32_mask(_mm512_loadu_si512(words), _mm512_set1_epi32(static_cast<int>(threshold)));
#else
  uint32_t bits = 0;
  for (int i = 0; i < 16; ++i) bits |= static_cast<uint32_t>(words[i] >= threshold) << i;
  return static_cast<uint16_t>(bits);
#endif
}

/// to[i] = scale where bit i is 1, and 0 elsewhere.
inline void spread_bits(uint16_t bits, float scale, float* __restrict to) {
#if defined(__AVX512F__)
  _mm512_storeu_ps(to, _mm512_maskz_mov_ps(bits, _mm512_set1_ps(scale)));
#else
  for (int i = 0; i < 16; ++i) to[i] = bits >> i & 1 ? scale : 0.f;
#endif
}

/// What dropout multiplies the probabilities of a query by.
class Keep {
 public:
  /// Takes 2 * row_words(head.length) floats.
  Keep(const AttentionHead& head, Scratch& scratch)
      : head_(head),
        words_(reinterpret_cast<uint32_t*>(scratch.take(row_words(head.length)))),
        keep_(scratch.take(row_words(head.length))) {}

  /// A number a key; null without dropout.
  const float* draw(int64_t query) {
    const AttentionDropout& dropout = head_.dropout;
    if (dropout.threshold == 0) return nullptr;
    const int64_t first = (head_.head * head_.positions + query) * head_.positions, within = first % 4;
    random_words(dropout.counter, static_cast<uint64_t>(first / 4), row_words(head_.length) / 4, words_);
    uint16_t* kept = bits_of(query);
    for (int64_t key = 0; key < head_.length; key += 16)
      kept[key / 16] = bits_kept(words_ + within + key, dropout.threshold);
    return spread(kept);
  }
  /// The same once more.
  const float* drawn(int64_t query) { return head_.dropout.threshold == 0 ? nullptr : spread(bits_of(query)); }

 private:
  uint16_t* bits_of(int64_t query) const { return head_.dropout.kept + query * kept_words(head_.positions); }
  const float* spread(const uint16_t* kept) {
    for (int64_t key = 0; key < head_.length; key += 16) spread_bits(kept[key / 16], head_.dropout.scale, keep_ + key);
    return keep_;
  }

  const AttentionHead& head_;
  uint32_t* words_;
  float* keep_;
};

inline void fill_rows_with_zero(float* rows, int64_t count, int64_t width, int64_t stride) {
  for (int64_t row = 0; row < count; ++row)
    for (int64_t i = 0; i < width; ++i) rows[row * stride + i] = 0;
}

constexpr float kLog2OfE = 1.44269504088896341f;

/// Of one query: turns its scores into probabilities, times `keep` where that isn't null, with next to nothing up to
/// whole vectors. Returns the logarithm of the sum of exp(scale * score).
inline float softmax(float* __restrict scores, int64_t length, float scale, const float* __restrict keep) {
  const int64_t count = whole_vectors(length);
  for (int64_t key = length; key < count; ++key) scores[key] = -__builtin_inff();
  const float largest = largest_of(scores, count);
  const float binary = scale * kLog2OfE;
  for (int64_t key = 0; key < count; ++key) scores[key] = exp2_of((scores[key] - largest) * binary);
  const float sum = sum_over(count, [&](auto read, int64_t i) { return read(scores + i); });
  const float inverse = 1.f / sum;
  if (keep == nullptr)
    for (int64_t key = 0; key < count; ++key) scores[key] *= inverse;
  else
    for (int64_t key = 0; key < count; ++key) scores[key] = scores[key] * inverse * keep[key];
  return largest * scale + __builtin_logf(sum);
}

/// Of one query: its scores become the probabilities after dropout, and the gradients of those become the gradients of
/// the scores: with P the probabilities, g the gradients after dropout and d = sum of P * g, that is scale * P * (g -
/// d). `keep` is null without dropout; d is the product of the output and its gradient. What stands past `length` up to
/// whole vectors is computed, too, and means nothing.
inline void softmax_backward(float* __restrict scores, float* __restrict gradients, const float* __restrict keep,
                             int64_t length, float scale, float log_sum, float product) {
  const int64_t count = whole_vectors(length);
  // The difference first: large scores and their sum nearly cancel out, and what is rounded before doesn't.
  for (int64_t key = 0; key < count; ++key) scores[key] = exp2_of((scores[key] * scale - log_sum) * kLog2OfE);
  if (keep == nullptr) {
    for (int64_t key = 0; key < count; ++key) gradients[key] = scale * scores[key] * (gradients[key] - product);
    return;
  }
  for (int64_t key = 0; key < count; ++key) {
    gradients[key] = scale * scores[key] * (gradients[key] * keep[key] - product);
    scores[key] *= keep[key];
  }
}

}  // namespace
}  // namespace dptrain::ops::DPTRAIN_ISA_NAMESPACE
