#include "ops/tile_block.h"
#include "ops/tile_product.h"

namespace dptrain::ops::DPTRAIN_ISA_NAMESPACE {
namespace {

int64_t tiles_of_depth(int64_t depth) { return (depth + kTileDepth - 1) / kTileDepth; }

/// Returns the bf16 numbers in a packed factor. It is stored block after block; a block is stored depth after depth,
/// piece after piece, with the block's two tiles adjacent.
int64_t packed(int64_t count, int64_t depth, int pieces) {
  return (count + kBlock - 1) / kBlock * tiles_of_depth(depth) * pieces * 2 * kTileElements;
}

__m512 read_f32(const float* from, int64_t count) { return _mm512_maskz_loadu_ps(first_lanes(count), from); }

/// The even and the odd numbers of two adjacent vectors.
struct LowerAndUpper {
  __m512 lower, upper;
};
LowerAndUpper apart(__m512 first, __m512 second) {
  const __m512i even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
  const __m512i odd = _mm512_setr_epi32(1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
  return {_mm512_permutex2var_ps(first, even, second), _mm512_permutex2var_ps(first, odd, second)};
}

/// Returns a number's bf16, the nearest or the next towards zero, as a float whose lower half is zero. The first piece
/// is the nearest, so that the sign of the next piece is random: the products of pieces that are left out are then
/// positive as often as negative. The later pieces are exact with either rounding, and towards zero costs less.
template <bool Nearest>
__m512 piece_of(__m512 x) {
  __m512i bits = _mm512_castps_si512(x);
  if (Nearest) bits = _mm512_add_epi32(bits, _mm512_set1_epi32(0x8000));
  return _mm512_castsi512_ps(_mm512_and_si512(bits, _mm512_set1_epi32(static_cast<int>(0xffff0000u))));
}

/// Returns the upper halves of floats, as pairs.
__m512i upper_halves(const LowerAndUpper& x) {
  return _mm512_mask_blend_epi16(0xaaaaaaaau, _mm512_srli_epi32(_mm512_castps_si512(x.lower), 16),
                                 _mm512_castps_si512(x.upper));
}

/// Writes a tile's row of f32 numbers; the tiles of its pieces are `kBlock * kTileDepth` apart.
void write_row(LowerAndUpper x, int pieces, Bfloat16* to) {
  constexpr int64_t kPiece = kBlock * kTileDepth;
  if (pieces == 1) return _mm512_storeu_si512(to, pairs_of(x.lower, x.upper));
  const LowerAndUpper first = {piece_of<true>(x.lower), piece_of<true>(x.upper)};
  _mm512_storeu_si512(to, upper_halves(first));
  x = {_mm512_sub_ps(x.lower, first.lower), _mm512_sub_ps(x.upper, first.upper)};
  const LowerAndUpper second = {piece_of<false>(x.lower), piece_of<false>(x.upper)};
  _mm512_storeu_si512(to + kPiece, upper_halves(second));
  x = {_mm512_sub_ps(x.lower, second.lower), _mm512_sub_ps(x.upper, second.upper)};
  _mm512_storeu_si512(to + 2 * kPiece, upper_halves(x));
}

/// Writes a tile if the depth runs along the rows: pairs are neighbors, and a row of the tile is a row of the source.
void write_along(const TileSource& source, int64_t row, int64_t depth, int pieces, Bfloat16* to) {
  const int64_t deep = smaller(kTileDepth, source.depth - depth);
  for (int64_t r = 0; r < kTileRows; ++r, to += kTileDepth) {
    const int64_t inside = row + r < source.count ? deep : 0, at = (row + r) * source.stride + depth;
    if (source.bf16 != nullptr) {
      const auto mask = static_cast<__mmask32>(inside == kTileDepth ? 0xffffffffu : (1u << inside) - 1);
      _mm512_storeu_si512(to, _mm512_maskz_loadu_epi16(mask, source.bf16 + at));
    } else {
      write_row(apart(read_f32(source.f32 + at, inside), read_f32(source.f32 + at + 16, inside - 16)), pieces, to);
    }
  }
}

/// Writes a tile if the depth runs across the rows: a pair's numbers are one below the other, and a row of the tile is
/// two rows of the source.
void write_across(const TileSource& source, int64_t column, int64_t depth, int pieces, Bfloat16* to) {
  const int64_t columns = source.count - column;
  for (int64_t k = depth; k < depth + kTileDepth; k += 2, to += kTileDepth) {
    const int64_t in_lower = k < source.depth ? columns : 0, in_upper = k + 1 < source.depth ? columns : 0;
    const int64_t lower = k * source.stride + column, upper = lower + source.stride;
    if (source.bf16 != nullptr) {
      const __m256i low = _mm256_maskz_loadu_epi16(first_lanes(in_lower), source.bf16 + lower);
      const __m256i high = _mm256_maskz_loadu_epi16(first_lanes(in_upper), source.bf16 + upper);
      _mm512_storeu_si512(
          to, _mm512_or_si512(_mm512_cvtepu16_epi32(low), _mm512_slli_epi32(_mm512_cvtepu16_epi32(high), 16)));
    } else {
      write_row({read_f32(source.f32 + lower, in_lower), read_f32(source.f32 + upper, in_upper)}, pieces, to);
    }
  }
}

void transpose_tile(Bfloat16* tile) {
  __m512i rows[16];
  for (int r = 0; r < 16; ++r) rows[r] = _mm512_loadu_si512(tile + r * kTileDepth);
  transpose_pairs(rows);
  for (int r = 0; r < 16; ++r) _mm512_storeu_si512(tile + r * kTileDepth, rows[r]);
}

template <bool Transposed>
void pack(const TileSource& source, int pieces, Bfloat16* to) {
  for (int64_t begin = 0; begin < source.count; begin += kBlock)
    for (int64_t depth = 0; depth < source.depth; depth += kTileDepth, to += pieces * 2 * kTileElements)
      for (int64_t half = 0; half < 2; ++half) {
        Bfloat16* tile = to + half * kTileElements;
        source.across ? write_across(source, begin + half * kTileRows, depth, pieces, tile)
                      : write_along(source, begin + half * kTileRows, depth, pieces, tile);
        if constexpr (Transposed)
          for (int piece = 0; piece < pieces; ++piece) transpose_tile(tile + piece * 2 * kTileElements);
      }
}

void pack_left(const TileSource& source, int pieces, Bfloat16* to) {
  source.across ? pack<true>(source, pieces, to) : pack<false>(source, pieces, to);
}

void pack_right(const TileSource& source, int pieces, Bfloat16* to) {
  source.across ? pack<false>(source, pieces, to) : pack<true>(source, pieces, to);
}

/// Computes a block's sums over `tiles` tiles of depth, from packed factors.
template <int Rows, int Columns>
void multiply_packed(int pieces, const Bfloat16* left, const Bfloat16* right, int64_t tiles, bool accumulate,
                     float* sums, int64_t stride) {
  const int64_t step_size = pieces * 2 * kTileElements;
  const auto steps = [&](const auto& step) {
    for (int64_t k = 0; k < tiles; ++k) {
      const Bfloat16* columns = right + k * step_size;
      step(left + k * step_size, columns, columns + kTileElements);
    }
  };
#ifdef __AMX_BF16__
  if (pieces == 3) return multiply_block_of_pieces<Rows, Columns>(steps, accumulate, sums, stride);
#endif
  multiply_block<Rows, Columns>(steps, accumulate, sums, stride);
}

/// Reads the part of y that a block at the matrix's edge adds to, with zeros past the edge.
void read_edge(const TileProduct& p, int64_t row, int64_t column, int64_t rows, int64_t columns, float* sums) {
  for (int64_t r = 0; r < kBlock; ++r)
    for (int64_t c = 0; c < kBlock; c += 16)
      _mm512_store_ps(sums + r * kBlock + c,
                      read_f32(p.y + (row + r) * p.y_stride + column + c, r < rows ? columns - c : 0));
}

/// Writes `rows` by `columns` of a block of sums to the result.
void finish(const TileProduct& p, const float* sums, int64_t row, int64_t column, int64_t rows, int64_t columns) {
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < columns; c += 16) {
      const __mmask16 mask = first_lanes(columns - c);
      const int64_t at = (row + r) * p.y_stride + column + c;
      __m512 sum = _mm512_loadu_ps(sums + r * kBlock + c);
      if (p.bias != nullptr) sum = _mm512_add_ps(sum, _mm512_maskz_loadu_ps(mask, p.bias + column + c));
      if (p.relu) sum = positive(sum);
      if (p.y != nullptr)
        _mm512_mask_storeu_ps(p.y + at, mask, sum);
      else
        _mm256_mask_storeu_epi16(p.rounded + at, mask, reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(sum)));
    }
}

/// Prefetches the memory of a block's sums, so that it has arrived when the products are done.
void fetch_for_sums(const TileProduct& p, int64_t row, int64_t column) {
  for (int64_t r = row; r < smaller(row + kBlock, p.rows); ++r) {
    const float* y = p.y + r * p.y_stride + column;
    __builtin_prefetch(y, 1);
    __builtin_prefetch(y + kTileRows, 1);
  }
}

void multiply(const TileProduct& p) {
  [[maybe_unused]] const BlockUnit unit;
  alignas(64) float sums[kBlock * kBlock];
  const int64_t depth = tiles_of_depth(p.depth), block_size = depth * p.pieces * 2 * kTileElements;
  for (int64_t column = 0; column < p.columns; column += kBlock)
    for (int64_t row = 0; row < p.rows; row += kBlock) {
      const int64_t rows = smaller(kBlock, p.rows - row), columns = smaller(kBlock, p.columns - column);
      const bool whole = rows == kBlock && columns == kBlock;
      const bool in_place = whole && p.y != nullptr && p.bias == nullptr && !p.relu;
      float* y = in_place ? p.y + row * p.y_stride + column : sums;
      const int64_t stride = in_place ? p.y_stride : kBlock;
      if (p.accumulate && !in_place) read_edge(p, row, column, rows, columns, sums);
      const Bfloat16* left = p.left + row / kBlock * block_size;
      const Bfloat16* right = p.right + column / kBlock * block_size;
      if (p.y != nullptr) fetch_for_sums(p, p.accumulate ? row + kBlock : row, column);
      const bool two_rows = rows > kTileRows, two_columns = columns > kTileRows;
      const auto multiply_tiles_of = two_rows      ? two_columns ? multiply_packed<2, 2> : multiply_packed<2, 1>
                                          : two_columns ? multiply_packed<1, 2>
                                                   : multiply_packed<1, 1>;
      multiply_tiles_of(p.pieces, left, right, depth, p.accumulate, y, stride);
      if (!in_place) finish(p, sums, row, column, rows, columns);
    }
}

}  // namespace

extern const TileKernels kTiles;
const TileKernels kTiles = {
    .packed = packed, .pack_left = pack_left, .pack_right = pack_right, .multiply = multiply, .block = kBlock};

}  // namespace dptrain::ops::DPTRAIN_ISA_NAMESPACE
