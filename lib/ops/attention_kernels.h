#pragma once

#include <cstdint>

#include "ops/random_counter.h"

namespace dptrain::ops {

/// Dropout of one sample's probabilities. A probability has a random word by its place in [heads, positions, positions]
/// and is dropped if that word is below the threshold.
struct AttentionDropout {
  RandomCounter counter;
  uint32_t threshold = 0;  ///< 0: no dropout
  float scale = 1;         ///< of the kept probabilities
  /// One bit per probability of the head, 1 if it is kept, in kept_words(positions) words. Forward draws the bits of
  /// the keys that it reads; backward reads them.
  uint16_t* kept = nullptr;
};

/// Random words that are drawn at once.
constexpr int64_t kDrawnWords = 128;

/// 16-bit words of a head's mask: one bit for each random word of its queries, query after query. The first random word
/// may lie inside a block of four, hence + 3. The bits are read in pairs of words, hence one word more at the end.
constexpr int64_t kept_words(int64_t positions) {
  return (positions * positions + 3 + kDrawnWords - 1) / kDrawnWords * (kDrawnWords / 16) + 1;
}

/// One head of one sample. Matrices are `positions` rows of `width` floats, `stride` apart.
struct AttentionHead {
  int64_t positions, width, stride;
  int64_t length;  ///< keys that are read: the first `length` ones
  int64_t head;
  float scale;  ///< of the products of queries and keys
  int pieces;   ///< bf16 pieces of each number where tiles are multiplied (ops/tile_product.h): 3, or 1 if the tensors
                ///< are bf16
  AttentionDropout dropout;
  const float *query, *key, *value;
  float* log_sums;  ///< for each query, the logarithm of its row's sum of exponentials
  float* scratch;   ///< scratch_floats() floats
};

struct AttentionHeadGradients {
  const float *y, *incoming;
  float *query, *key, *value;
};

/// Attention of one head, on the calling thread. It works on blocks of queries whose probabilities stay in the
/// second-level cache. Forward keeps only log_sums; backward computes the probabilities from them again (Dao et al.,
/// "FlashAttention", 2022). Unlike there, all keys form one block, so a row has all its scores at once.
struct AttentionKernels {
  /// Floats of scratch memory that forward and backward need; `pieces` as in AttentionHead.
  int64_t (*scratch_floats)(int64_t positions, int64_t width, int pieces);
  void (*forward)(const AttentionHead& head, float* y);
  void (*backward)(const AttentionHead& head, const AttentionHeadGradients& gradients);
};

/// The kernels for this machine; `pieces` as in AttentionHead.
const AttentionKernels& attention_kernels(int pieces);

}  // namespace dptrain::ops
