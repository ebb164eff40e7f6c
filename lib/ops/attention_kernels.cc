#include "ops/attention_kernels.h"

#include "ops/attention_rows.h"
#include "ops/small_product.h"

// Compiled once for each instruction set, see cmake/DptrainKernels.cmake. Nine tenths of the work are products of
// 2 * positions^2 * width operations each: 2 of them forward, 5 backward.

namespace dptrain::ops::DPTRAIN_ISA_NAMESPACE {
namespace {

/// Queries whose scores are kept at a time, a multiple of a tile's rows. They are few, so that the scores stay in the
/// first-level cache.
constexpr int64_t kBlock = 24;

int64_t scratch_floats(int64_t positions, int64_t width, int) {
  const int64_t keys = whole_panels(positions), columns = whole_panels(width);
  const int64_t packed = 2 * keys * width + positions * columns;
  const int64_t of_block = 2 * kBlock * whole_vectors(keys) + 3 * kBlock * columns;
  const int64_t sums = 2 * positions * columns;
  return packed + of_block + sums;
}

void copy_rows(const float* from, int64_t from_stride, int64_t rows, int64_t width, float* to, int64_t to_stride) {
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t i = 0; i < width; ++i) to[row * to_stride + i] = from[row * from_stride + i];
}

/// Multiplies each row by a number of its own.
void write_scaled(const float* from, int64_t from_stride, const float* factors, int64_t rows, int64_t width, float* to,
                  int64_t to_stride) {
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t i = 0; i < width; ++i) to[row * to_stride + i] = factors[row] * from[row * from_stride + i];
}

void forward(const AttentionHead& head, float* y) {
  const int64_t length = head.length, width = head.width;
  if (length == 0) return fill_rows_with_zero(y, head.positions, width, head.stride);
  // If panels are narrower than whole vectors, a row of scores is longer than the packed keys.
  const int64_t keys = whole_panels(length), columns = whole_panels(width), of_row = whole_vectors(keys);
  Scratch scratch(head.scratch);
  float *keys_across = scratch.take(keys * width), *values = scratch.take(length * columns);
  float *scores = scratch.take(kBlock * of_row), *out = scratch.take(kBlock * columns);
  Keep keep(head);
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
              .c_row = of_row});
    float factors[kBlock];
    for (int64_t row = 0; row < rows; ++row) {
      const SoftmaxSum sum = softmax(scores + row * of_row, length, head.scale, keep.draw(begin + row));
      head.log_sums[begin + row] = sum.log_sum;
      factors[row] = sum.inverse * keep.scale();
    }
    multiply({.rows = rows,
              .columns = columns,
              .depth = length,
              .a = scores,
              .a_row = of_row,
              .a_depth = 1,
              .b = values,
              .c = out,
              .c_row = columns});
    write_scaled(out, columns, factors, rows, width, y + begin * head.stride, head.stride);
  }
}

void backward(const AttentionHead& head, const AttentionHeadGradients& to) {
  const int64_t length = head.length, width = head.width, stride = head.stride;
  fill_rows_with_zero(to.key + length * stride, head.positions - length, width, stride);
  fill_rows_with_zero(to.value + length * stride, head.positions - length, width, stride);
  if (length == 0) return fill_rows_with_zero(to.query, head.positions, width, stride);
  // If panels are narrower than whole vectors, a row of scores is longer than the packed keys.
  const int64_t keys = whole_panels(length), columns = whole_panels(width), of_row = whole_vectors(keys);
  Scratch scratch(head.scratch);
  float *keys_across = scratch.take(keys * width), *values_across = scratch.take(keys * width);
  float* keys_along = scratch.take(length * columns);
  float *scores = scratch.take(kBlock * of_row), *gradients = scratch.take(kBlock * of_row);
  float *queries = scratch.take(kBlock * columns), *incoming = scratch.take(kBlock * columns);
  float* out = scratch.take(kBlock * columns);
  float *key_sums = scratch.take(length * columns), *value_sums = scratch.take(length * columns);
  const Keep keep(head);
  pack_columns(head.key, stride, length, width, keys_across);
  pack_columns(head.value, stride, length, width, values_across);
  pack_rows(head.key, stride, length, width, keys_along);
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
              .c_row = of_row});
    multiply({.rows = rows,
              .columns = keys,
              .depth = width,
              .a = to.incoming + at,
              .a_row = stride,
              .a_depth = 1,
              .b = values_across,
              .c = gradients,
              .c_row = of_row});
    for (int64_t row = 0; row < rows; ++row) {
      const float *y = to.y + at + row * stride, *of_y = to.incoming + at + row * stride;
      const float product = sum_over(width, [&](auto read, int64_t i) { return read(y + i) * read(of_y + i); });
      softmax_backward(
          scores + row * of_row, gradients + row * of_row, length,
          {.scale = head.scale, .kept_scale = keep.scale(), .log_sum = head.log_sums[begin + row], .product = product},
          keep.drawn(begin + row));
    }
    multiply({.rows = rows,
              .columns = columns,
              .depth = length,
              .a = gradients,
              .a_row = of_row,
              .a_depth = 1,
              .b = keys_along,
              .c = out,
              .c_row = columns});
    copy_rows(out, columns, rows, width, to.query + at, stride);
    // These are sums over the queries, block after block; the block's matrices are read transposed.
    pack_rows(head.query + at, stride, rows, width, queries);
    pack_rows(to.incoming + at, stride, rows, width, incoming);
    multiply({.rows = length,
              .columns = columns,
              .depth = rows,
              .a = gradients,
              .a_row = 1,
              .a_depth = of_row,
              .b = queries,
              .c = key_sums,
              .c_row = columns,
              .accumulate = begin > 0});
    multiply({.rows = length,
              .columns = columns,
              .depth = rows,
              .a = scores,
              .a_row = 1,
              .a_depth = of_row,
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
