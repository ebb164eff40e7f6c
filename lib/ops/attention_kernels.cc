#include "ops/attention_kernels.h"

#include "ops/float_functions.h"
#include "ops/random_words.h"
#include "ops/small_product.h"

// Compiled once for each instruction set, see cmake/DptrainKernels.cmake. Of the work nine tenths are products: 2 of
// 2 * positions^2 * width operations forward, 5 backward.

namespace dptrain::ops::DPTRAIN_ISA_NAMESPACE {
namespace {

/// Queries whose scores are kept at a time, whole tiles of products: 192 KB for 512 keys.
constexpr int64_t kBlock = 96;

int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

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
int64_t row_words(int64_t positions) {
  return (positions + 3 + 4 * kRandomBlocks) / (4 * kRandomBlocks) * 4 * kRandomBlocks;
}

int64_t scratch_floats(int64_t positions, int64_t width) {
  const int64_t keys = whole_panels(positions), columns = whole_panels(width);
  const int64_t packed = 2 * keys * width + positions * columns;
  const int64_t of_block = 2 * kBlock * keys + 3 * kBlock * columns;
  const int64_t sums = 2 * positions * columns;
  return packed + of_block + sums + 2 * row_words(positions);
}

/// What dropout multiplies the probabilities of one query by: `keep`, a number a key.
void draw_keep(const AttentionHead& head, int64_t query, uint32_t* words, float* __restrict keep) {
  const int64_t first = (head.head * head.positions + query) * head.positions, within = first % 4;
  const int64_t blocks = (within + head.length + 4 * kRandomBlocks - 1) / (4 * kRandomBlocks) * kRandomBlocks;
  random_words(head.dropout.counter, static_cast<uint32_t>(first / 4), blocks, words);
  const uint32_t threshold = head.dropout.threshold;
  const float scale = head.dropout.scale;
  for (int64_t key = 0; key < head.length; ++key) keep[key] = words[within + key] >= threshold ? scale : 0.f;
}

void copy_rows(const float* from, int64_t from_stride, int64_t rows, int64_t width, float* to, int64_t to_stride) {
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t i = 0; i < width; ++i) to[row * to_stride + i] = from[row * from_stride + i];
}

void fill_rows_with_zero(float* rows, int64_t count, int64_t width, int64_t stride) {
  for (int64_t row = 0; row < count; ++row)
    for (int64_t i = 0; i < width; ++i) rows[row * stride + i] = 0;
}

/// Turns a query's scores into probabilities. Returns the logarithm of the sum of exp(scale * score).
float softmax(float* __restrict scores, int64_t count, float scale) {
  const float largest = largest_of(scores, count);
  for (int64_t key = 0; key < count; ++key) scores[key] = exp_of((scores[key] - largest) * scale);
  const float sum = sum_over(count, [&](auto read, int64_t i) { return read(scores + i); });
  const float inverse = 1.f / sum;
  for (int64_t key = 0; key < count; ++key) scores[key] *= inverse;
  return largest * scale + __builtin_logf(sum);
}

void forward(const AttentionHead& head, float* y) {
  const int64_t length = head.length, width = head.width;
  if (length == 0) return fill_rows_with_zero(y, head.positions, width, head.stride);
  const int64_t keys = whole_panels(length), columns = whole_panels(width);
  Scratch scratch(head.scratch);
  float *keys_across = scratch.take(keys * width), *values = scratch.take(length * columns);
  float *scores = scratch.take(kBlock * keys), *out = scratch.take(kBlock * columns);
  float *words = scratch.take(row_words(head.positions)), *keep = scratch.take(row_words(head.positions));
  pack_columns(head.key, head.stride, length, width, keys_across);
  pack_rows(head.value, head.stride, length, width, values);
  for (int64_t begin = 0; begin < head.positions; begin += kBlock) {
    const int64_t rows = smaller(kBlock, head.positions - begin);
    multiply({.rows = rows,
              .columns = keys,
              .depth = width,
              .a = head.query + begin * head.stride,
              .a_row = head.stride,
              .a_depth = 1,
              .b = keys_across,
              .c = scores,
              .c_row = keys});
    for (int64_t row = 0; row < rows; ++row) {
      float* __restrict weights = scores + row * keys;
      head.log_sums[begin + row] = softmax(weights, length, head.scale);
      if (head.dropout.threshold == 0) continue;
      draw_keep(head, begin + row, reinterpret_cast<uint32_t*>(words), keep);
      for (int64_t key = 0; key < length; ++key) weights[key] *= keep[key];
    }
    multiply({.rows = rows,
              .columns = columns,
              .depth = length,
              .a = scores,
              .a_row = keys,
              .a_depth = 1,
              .b = values,
              .c = out,
              .c_row = columns});
    copy_rows(out, columns, rows, width, y + begin * head.stride, head.stride);
  }
}

/// Of one query: its scores become the probabilities after dropout, and the gradients of those become the gradients of
/// the scores: with P the probabilities, g the gradients after dropout and d = sum of P * g, that is scale * P * (g -
/// d). `keep` is null without dropout; d is the product of the output and its gradient.
void softmax_backward(float* __restrict scores, float* __restrict gradients, const float* __restrict keep,
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

void backward(const AttentionHead& head, const AttentionHeadGradients& to) {
  const int64_t length = head.length, width = head.width, stride = head.stride;
  fill_rows_with_zero(to.key + length * stride, head.positions - length, width, stride);
  fill_rows_with_zero(to.value + length * stride, head.positions - length, width, stride);
  if (length == 0) return fill_rows_with_zero(to.query, head.positions, width, stride);
  const int64_t keys = whole_panels(length), columns = whole_panels(width);
  Scratch scratch(head.scratch);
  float *keys_across = scratch.take(keys * width), *values_across = scratch.take(keys * width);
  float* keys_along = scratch.take(length * columns);
  float *scores = scratch.take(kBlock * keys), *gradients = scratch.take(kBlock * keys);
  float *queries = scratch.take(kBlock * columns), *incoming = scratch.take(kBlock * columns);
  float* out = scratch.take(kBlock * columns);
  float *key_sums = scratch.take(length * columns), *value_sums = scratch.take(length * columns);
  float *words = scratch.take(row_words(head.positions)), *keep = scratch.take(row_words(head.positions));
  pack_columns(head.key, stride, length, width, keys_across);
  pack_columns(head.value, stride, length, width, values_across);
  pack_rows(head.key, stride, length, width, keys_along);
  const bool dropping = head.dropout.threshold != 0;
  for (int64_t begin = 0; begin < head.positions; begin += kBlock) {
    const int64_t rows = smaller(kBlock, head.positions - begin), at = begin * stride;
    multiply({.rows = rows,
              .columns = keys,
              .depth = width,
              .a = head.query + at,
              .a_row = stride,
              .a_depth = 1,
              .b = keys_across,
              .c = scores,
              .c_row = keys});
    multiply({.rows = rows,
              .columns = keys,
              .depth = width,
              .a = to.incoming + at,
              .a_row = stride,
              .a_depth = 1,
              .b = values_across,
              .c = gradients,
              .c_row = keys});
    for (int64_t row = 0; row < rows; ++row) {
      const float *y = to.y + at + row * stride, *of_y = to.incoming + at + row * stride;
      const float product = sum_over(width, [&](auto read, int64_t i) { return read(y + i) * read(of_y + i); });
      if (dropping) draw_keep(head, begin + row, reinterpret_cast<uint32_t*>(words), keep);
      softmax_backward(scores + row * keys, gradients + row * keys, dropping ? keep : nullptr, length, head.scale,
                       head.log_sums[begin + row], product);
    }
    multiply({.rows = rows,
              .columns = columns,
              .depth = length,
              .a = gradients,
              .a_row = keys,
              .a_depth = 1,
              .b = keys_along,
              .c = out,
              .c_row = columns});
    copy_rows(out, columns, rows, width, to.query + at, stride);
    // Sums over the queries, block after block: the matrices of a block are read transposed.
    pack_rows(head.query + at, stride, rows, width, queries);
    pack_rows(to.incoming + at, stride, rows, width, incoming);
    multiply({.rows = length,
              .columns = columns,
              .depth = rows,
              .a = gradients,
              .a_row = 1,
              .a_depth = keys,
              .b = queries,
              .c = key_sums,
              .c_row = columns,
              .accumulate = begin > 0});
    multiply({.rows = length,
              .columns = columns,
              .depth = rows,
              .a = scores,
              .a_row = 1,
              .a_depth = keys,
              .b = incoming,
              .c = value_sums,
              .c_row = columns,
              .accumulate = begin > 0});
  }
  copy_rows(key_sums, columns, length, width, to.key, stride);
  copy_rows(value_sums, columns, length, width, to.value, stride);
}

}  // namespace

extern const AttentionKernels kAttention;
const AttentionKernels kAttention = {scratch_floats, forward, backward};

}  // namespace dptrain::ops::DPTRAIN_ISA_NAMESPACE
