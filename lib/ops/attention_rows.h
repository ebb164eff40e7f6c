#pragma once

#include "ops/attention_kernels.h"
#include "ops/float_functions.h"
#include "ops/random_words.h"
#include "ops/vector_lanes.h"

// What attention does with a query's scores between its two products. For *_kernels.cc and *_bf16.cc only: each
// instruction set compiles its own copy, which no other file sees.

namespace dptrain::ops::DPTRAIN_ISA_NAMESPACE {
namespace {

inline int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

/// Hands out scratch memory piece by piece.
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

/// Rows of scores are computed in whole vectors; the padding at a row's end is no part of its sums.
inline int64_t whole_vectors(int64_t count) { return (count + 15) / 16 * 16; }

/// One bit for each of 16 random words: 1 if the word is at least the threshold.
inline uint16_t bits_kept(const uint32_t* words, uint32_t threshold) {
#if defined(__AVX512F__)
  return _mm512_cmpge_epu32_mask(_mm512_loadu_si512(words), _mm512_set1_epi32(static_cast<int>(threshold)));
#elif defined(__AVX2__)
  const auto bits_of_eight = [&](const uint32_t* from) {
    const __m256i eight = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
    const __m256i larger = _mm256_max_epu32(eight, _mm256_set1_epi32(static_cast<int>(threshold)));
    return _mm256_movemask_ps(_mm256_castsi256_ps(_mm256_cmpeq_epi32(eight, larger)));
  };
  return static_cast<uint16_t>(bits_of_eight(words) | bits_of_eight(words + 8) << 8);
#else
  uint32_t bits = 0;
  for (int i = 0; i < 16; ++i) bits |= static_cast<uint32_t>(words[i] >= threshold) << i;
  return static_cast<uint16_t>(bits);
#endif
}

/// Keeps the lanes whose bit is 1 and zeroes the rest.
inline Sixteen lanes_kept(uint16_t bits, const Sixteen& lanes) {
#if defined(__AVX512F__)
  return Sixteen::made([&](int i) { return _mm512_maskz_mov_ps(bits, lanes.registers[i]); });
#else
  Lanes<kRegisterLanes>::Places bit_of_lane;
  for (int lane = 0; lane < kRegisterLanes; ++lane) bit_of_lane[lane] = 1 << lane;
  return Sixteen::made([&](int i) {
    const int bits_of_register = bits >> i * kRegisterLanes;
    return (bit_of_lane & bits_of_register) != 0 ? lanes.registers[i] : Register{};
  });
#endif
}

/// Which probabilities of a query dropout keeps.
class KeptKeys {
 public:
  /// Keeps all of them.
  KeptKeys() = default;
  /// `bits` has one bit per key, from bit number `first` on.
  KeptKeys(const uint16_t* bits, int64_t first) : bits_(bits), first_(first) {}

  /// Returns the bits of the 16 keys from `key` on.
  uint16_t operator()(int64_t key) const {
    if (bits_ == nullptr) return 0xffff;
    uint32_t pair;
    __builtin_memcpy(&pair, bits_ + (first_ + key) / 16, sizeof pair);
    return static_cast<uint16_t>(pair >> (first_ + key) % 16);
  }

 private:
  const uint16_t* bits_ = nullptr;
  int64_t first_ = 0;
};

/// Dropout of a head's probabilities.
class Keep {
 public:
  explicit Keep(const AttentionHead& head)
      : head_(head), first_(head.head * head.positions * head.positions), within_(first_ % 4) {}

  bool drops() const { return head_.dropout.threshold != 0; }
  /// Factor of the kept probabilities.
  float scale() const { return drops() ? head_.dropout.scale : 1.f; }

  /// Draws the bits of one query. Queries must be drawn in order.
  KeptKeys draw(int64_t query) {
    if (!drops()) return {};
    const int64_t begin = within_ + query * head_.positions;
    if (drawn_ < begin) drawn_ = begin / kDrawnWords * kDrawnWords;
    for (; drawn_ < begin + head_.length; drawn_ += kDrawnWords) {
      uint32_t words[kDrawnWords];
      random_words(head_.dropout.counter, static_cast<uint64_t>((first_ + drawn_) / 4), kDrawnWords / 4, words);
      for (int64_t i = 0; i < kDrawnWords; i += 16)
        head_.dropout.kept[(drawn_ + i) / 16] = bits_kept(words + i, head_.dropout.threshold);
    }
    return drawn(query);
  }
  /// Returns the bits that draw() has drawn for this query.
  KeptKeys drawn(int64_t query) const {
    if (!drops()) return {};
    return {head_.dropout.kept, within_ + query * head_.positions};
  }

 private:
  const AttentionHead& head_;
  int64_t first_, within_;  ///< number of the head's first word, and its place in its block of four
  int64_t drawn_ = 0;       ///< words already drawn or skipped, counted from the start of that block
};

inline void fill_rows_with_zero(float* rows, int64_t count, int64_t width, int64_t stride) {
  for (int64_t row = 0; row < count; ++row)
    for (int64_t i = 0; i < width; ++i) rows[row * stride + i] = 0;
}

constexpr float kLog2OfE = 1.44269504088896341f;

/// Numbers that softmax returns besides the scores.
struct SoftmaxSum {
  float log_sum;  ///< the logarithm of the sum of exp(scale * score)
  float inverse;  ///< turns the scores that softmax wrote into probabilities
};

/// Turns one query's scores into multiples of their probabilities, with 0 for the keys that dropout doesn't keep. The
/// padding up to whole vectors gets numbers near 0.
inline SoftmaxSum softmax(float* __restrict scores, int64_t length, float scale, const KeptKeys& kept) {
  const int64_t count = whole_vectors(length);
  for (int64_t key = length; key < count; ++key) scores[key] = -__builtin_inff();
  const float largest = largest_of(scores, count);
  const float binary = scale * kLog2OfE;
  Sixteen sums;
  for (int64_t key = 0; key < count; key += 16) {
    const Sixteen exponential = exp2_of((Sixteen::load(scores + key) - largest) * binary);
    sums += exponential;
    lanes_kept(kept(key), exponential).store(scores + key);
  }
  const float sum = fold(sums, [](auto a, auto b) { return a + b; });
  return {.log_sum = largest * scale + __builtin_logf(sum), .inverse = 1.f / sum};
}

/// Numbers that softmax_backward needs besides the rows.
struct SoftmaxBackward {
  float scale;       ///< of the scores
  float kept_scale;  ///< of the probabilities that are kept
  float log_sum;     ///< as softmax returned it
  float product;     ///< dot product of the query's output and its gradient
};

/// Turns one query's scores into its probabilities after dropout, and the gradients of these into the gradients of the
/// scores. With P the probabilities, g the gradients after dropout and d = sum of P * g, the gradient of a score is
/// scale * P * (g - d). Numbers past `length`, up to whole vectors, are computed too and mean nothing.
inline void softmax_backward(float* __restrict scores, float* __restrict gradients, int64_t length,
                             const SoftmaxBackward& with, const KeptKeys& kept) {
  for (int64_t key = 0; key < length; key += 16) {
    // Subtract before multiplying by log2(e): a large scaled score and log_sum nearly cancel, but the rounding errors
    // of their products would not.
    const Sixteen probability = exp2_of((Sixteen::load(scores + key) * with.scale - with.log_sum) * kLog2OfE);
    const uint16_t bits = kept(key);
    const Sixteen gradient = lanes_kept(bits, Sixteen::load(gradients + key)) * with.kept_scale;
    (with.scale * probability * (gradient - with.product)).store(gradients + key);
    (lanes_kept(bits, probability) * with.kept_scale).store(scores + key);
  }
}

}  // namespace
}  // namespace dptrain::ops::DPTRAIN_ISA_NAMESPACE
