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

/// Words for a row of keys, which may begin within a block of four.
inline int64_t row_words(int64_t positions) {
  return (positions + 3 + 4 * kRandomBlocks) / (4 * kRandomBlocks) * 4 * kRandomBlocks;
}

/// What dropout multiplies the probabilities of one query by, for the first `count` keys: `keep`, a number a key.
/// `words` has room for row_words(count).
inline void draw_keep(const AttentionHead& head, int64_t query, int64_t count, uint32_t* words,
                      float* __restrict keep) {
  const int64_t first = (head.head * head.positions + query) * head.positions, within = first % 4;
  const int64_t blocks = (within + count + 4 * kRandomBlocks - 1) / (4 * kRandomBlocks) * kRandomBlocks;
  random_words(head.dropout.counter, static_cast<uint64_t>(first / 4), blocks, words);
  const uint32_t threshold = head.dropout.threshold;
  const float scale = head.dropout.scale;
  for (int64_t key = 0; key < count; ++key) keep[key] = words[within + key] >= threshold ? scale : 0.f;
}

inline void fill_rows_with_zero(float* rows, int64_t count, int64_t width, int64_t stride) {
  for (int64_t row = 0; row < count; ++row)
    for (int64_t i = 0; i < width; ++i) rows[row * stride + i] = 0;
}

/// Turns a query's scores into probabilities, times `keep` where that isn't null. Returns the logarithm of the sum of
/// exp(scale * score).
inline float softmax(float* __restrict scores, int64_t count, float scale, const float* __restrict keep) {
  const float largest = largest_of(scores, count);
  for (int64_t key = 0; key < count; ++key) scores[key] = exp_of((scores[key] - largest) * scale);
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
/// d). `keep` is null without dropout; d is the product of the output and its gradient.
inline void softmax_backward(float* __restrict scores, float* __restrict gradients, const float* __restrict keep,
                             int64_t count, float scale, float log_sum, float product) {
  for (int64_t key = 0; key < count; ++key) scores[key] = exp_of(scores[key] * scale - log_sum);
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
