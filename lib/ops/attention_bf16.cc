#include "ops/attention_kernels.h"
#include "ops/attention_rows.h"
#include "ops/tile_product.h"

// Attention by tiles: like attention_kernels.cc, but with products of tiles and rows of scores in whole vectors.

namespace dptrain::ops::DPTRAIN_ISA_NAMESPACE {

extern const TileKernels kTiles;

namespace {

/// Queries whose scores are kept at a time: 400 KB for 512 keys, backward twice that.
constexpr int64_t kBlock = 192;

/// Floats that a packed factor takes.
int64_t packed_floats(int64_t count, int64_t depth, int pieces) { return kTiles.packed(count, depth, pieces) / 2; }

/// Packs factors into scratch memory and multiplies them.
class Products {
 public:
  Products(Scratch& scratch, int pieces) : scratch_(scratch), pieces_(pieces) {}

  Bfloat16* take(int64_t count, int64_t depth) {
    return reinterpret_cast<Bfloat16*>(scratch_.take(packed_floats(count, depth, pieces_)));
  }
  const Bfloat16* right(const TileSource& source, Bfloat16* to) const {
    kTiles.pack_right(source, pieces_, to);
    return to;
  }
  const Bfloat16* right(const TileSource& source) { return right(source, take(source.count, source.depth)); }

  /// y = left * right, or y += left * right. Packs `left` into `room`; `right` is packed already and has `columns`
  /// columns.
  void multiply(const TileSource& left, const Bfloat16* right, int64_t columns, Bfloat16* room, float* y,
                int64_t y_stride, bool accumulate = false) const {
    kTiles.pack_left(left, pieces_, room);
    kTiles.multiply({.rows = left.count,
                     .columns = columns,
                     .depth = left.depth,
                     .pieces = pieces_,
                     .left = room,
                     .right = right,
                     .accumulate = accumulate,
                     .y = y,
                     .y_stride = y_stride});
  }

 private:
  Scratch& scratch_;
  int pieces_;
};

int64_t scratch_floats(int64_t positions, int64_t width, int pieces) {
  const int64_t queries = smaller(kBlock, positions), keys = whole_vectors(positions);
  const auto packed = [=](int64_t count, int64_t depth) { return packed_floats(count, depth, pieces); };
  const int64_t of_keys = 2 * packed(positions, width) + packed(width, positions);
  const int64_t of_queries = 2 * packed(queries, width) + 2 * packed(width, queries);
  const int64_t of_scores = packed(queries, positions) + packed(positions, queries) + 2 * queries * keys;
  return of_keys + of_queries + of_scores;
}

TileSource rows_of(const float* matrix, int64_t rows, int64_t depth, int64_t stride) {
  return {.f32 = matrix, .count = rows, .depth = depth, .stride = stride};
}
TileSource columns_of(const float* matrix, int64_t columns, int64_t depth, int64_t stride) {
  return {.f32 = matrix, .count = columns, .depth = depth, .stride = stride, .across = true};
}

void forward(const AttentionHead& head, float* y) {
  const int64_t length = head.length, width = head.width, stride = head.stride;
  if (length == 0) return fill_rows_with_zero(y, head.positions, width, stride);
  const int64_t queries = smaller(kBlock, head.positions), keys = whole_vectors(length);
  Scratch scratch(head.scratch);
  Products products(scratch, head.pieces);
  Keep keep(head);
  const Bfloat16* keys_across = products.right(rows_of(head.key, length, width, stride));
  const Bfloat16* values = products.right(columns_of(head.value, width, length, stride));
  Bfloat16 *query_room = products.take(queries, width), *score_room = products.take(queries, length);
  float* scores = scratch.take(queries * keys);
  for (int64_t begin = 0; begin < head.positions; begin += kBlock) {
    const int64_t rows = smaller(kBlock, head.positions - begin);
    products.multiply(rows_of(head.query + begin * stride, rows, width, stride), keys_across, length, query_room,
                      scores, keys);
    float factors[kBlock];
    for (int64_t row = 0; row < rows; ++row) {
      const SoftmaxSum sum = softmax(scores + row * keys, length, head.scale, keep.draw(begin + row));
      head.log_sums[begin + row] = sum.log_sum;
      factors[row] = sum.inverse * keep.scale();
    }
    float* out = y + begin * stride;
    products.multiply(rows_of(scores, rows, length, keys), values, width, score_room, out, stride);
    for (int64_t row = 0; row < rows; ++row)
      for (int64_t i = 0; i < width; ++i) out[row * stride + i] *= factors[row];
  }
}

void backward(const AttentionHead& head, const AttentionHeadGradients& to) {
  const int64_t length = head.length, width = head.width, stride = head.stride;
  fill_rows_with_zero(to.key + length * stride, head.positions - length, width, stride);
  fill_rows_with_zero(to.value + length * stride, head.positions - length, width, stride);
  if (length == 0) return fill_rows_with_zero(to.query, head.positions, width, stride);
  const int64_t queries = smaller(kBlock, head.positions), keys = whole_vectors(length);
  Scratch scratch(head.scratch);
  Products products(scratch, head.pieces);
  const Keep keep(head);
  const Bfloat16* keys_across = products.right(rows_of(head.key, length, width, stride));
  const Bfloat16* values_across = products.right(rows_of(head.value, length, width, stride));
  const Bfloat16* keys_along = products.right(columns_of(head.key, width, length, stride));
  Bfloat16 *row_room = products.take(queries, width), *score_room = products.take(queries, length);
  Bfloat16* key_room = products.take(length, queries);
  Bfloat16 *query_room = products.take(width, queries), *incoming_room = products.take(width, queries);
  float *scores = scratch.take(queries * keys), *gradients = scratch.take(queries * keys);
  for (int64_t begin = 0; begin < head.positions; begin += kBlock) {
    const int64_t rows = smaller(kBlock, head.positions - begin), at = begin * stride;
    const float *query = head.query + at, *incoming = to.incoming + at, *y = to.y + at;
    products.multiply(rows_of(query, rows, width, stride), keys_across, length, row_room, scores, keys);
    products.multiply(rows_of(incoming, rows, width, stride), values_across, length, row_room, gradients, keys);
    for (int64_t row = 0; row < rows; ++row) {
      const float product = sum_over(
          width, [&](auto read, int64_t i) { return read(y + row * stride + i) * read(incoming + row * stride + i); });
      softmax_backward(
          scores + row * keys, gradients + row * keys, length,
          {.scale = head.scale, .kept_scale = keep.scale(), .log_sum = head.log_sums[begin + row], .product = product},
          keep.drawn(begin + row));
    }
    products.multiply(rows_of(gradients, rows, length, keys), keys_along, width, score_room, to.query + at, stride);
    // These are sums over the queries, block after block.
    const Bfloat16* queries_across = products.right(columns_of(query, width, rows, stride), query_room);
    const Bfloat16* incoming_across = products.right(columns_of(incoming, width, rows, stride), incoming_room);
    products.multiply(columns_of(gradients, length, rows, keys), queries_across, width, key_room, to.key, stride,
                      begin > 0);
    products.multiply(columns_of(scores, length, rows, keys), incoming_across, width, key_room, to.value, stride,
                      begin > 0);
  }
}

}  // namespace

extern const AttentionKernels kAttention;
const AttentionKernels kAttention = {scratch_floats, forward, backward};

}  // namespace dptrain::ops::DPTRAIN_ISA_NAMESPACE
