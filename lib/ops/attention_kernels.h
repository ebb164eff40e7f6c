#pragma once

#include <cstdint>

#include "ops/random_counter.h"

namespace dptrain::ops {

/// Dropout of one sample's probabilities: those are dropped whose word, by their place in [heads, positions,
/// positions], is below the threshold.
struct AttentionDropout {
  RandomCounter counter;
  uint32_t threshold = 0;  ///< 0: none
  float scale = 1;         ///< of what is kept
  /// A bit a probability of the head, 1 where it is kept, in kept_words(positions) words: forward draws those of the
  /// keys that are read, backward reads them.
  uint16_t* kept = nullptr;
};

/// Random words that are drawn at once.
constexpr int64_t kDrawnWords = 128;

/// Words of 16 bits that a head has: a bit each of the random words of its queries, one after the other, which begin
/// within a block of four, and end with a word more, since they are read by pairs.
constexpr int64_t kept_words(int64_t positions) {
  return (positions * positions + 3 + kDrawnWords - 1) / kDrawnWords * (kDrawnWords / 16) + 1;
}

/// One head of one sample. Matrices are `positions` rows of `width` floats, `stride` apart.
struct AttentionHead {
  int64_t positions, width, stride;
  int64_t length;  ///< keys that are read: the first of them
  int64_t head;
  float scale;  ///< of the products of queries and keys
  int pieces;   ///< of each number where tiles are multiplied, see ops/tile_product.h: 3, or 1 where the tensors are
                ///< bf16
  AttentionDropout dropout;
  const float *query, *key, *value;
  float* log_sums;  ///< a number a query: the logarithm of its row's sum of exponentials
  float* scratch;   ///< scratch_floats of memory
};

struct AttentionHeadGradients {
  const float *y, *incoming;
  float *query, *key, *value;
};

/// Attention of one head, on the calling thread. By blocks of queries whose probabilities stay in the second-level
/// cache; backward computes them again from log_sums, which alone are kept (Dao et al., "FlashAttention", 2022, with
/// keys in one block: a row has all its scores at once).
struct AttentionKernels {
  /// Of memory that either of the others needs; `pieces` as of AttentionHead.
  int64_t (*scratch_floats)(int64_t positions, int64_t width, int pieces);
  void (*forward)(const AttentionHead& head, float* y);
  void (*backward)(const AttentionHead& head, const AttentionHeadGradients& gradients);
};

/// `pieces` as of AttentionHead.
const AttentionKernels& attention_kernels(int pieces);

}  // namespace dptrain::ops
