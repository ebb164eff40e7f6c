#include "ops/amx_tiles.h"
#include "ops/tile_product.h"

namespace dptrain::ops::DPTRAIN_ISA_NAMESPACE {
namespace {

/// Two tiles by two are computed at once: each tile that is loaded serves twice.
constexpr int64_t kBlock = 2 * kTileRows;

int64_t tiles_of_depth(int64_t depth) { return (depth + kTileDepth - 1) / kTileDepth; }

/// A factor lies block after block, in each depth after depth, piece after piece, the block's two tiles.
int64_t packed(int64_t count, int64_t depth, int pieces) {
  return (count + kBlock - 1) / kBlock * tiles_of_depth(depth) * pieces * 2 * kTileElements;
}

__m512 read_f32(const float* from, int64_t count) { return _mm512_maskz_loadu_ps(first_lanes(count), from); }

/// Pairs of one tile, a register for each row of it, and what is left of the f32 numbers they are rounded from.
struct TilePairs {
  __m512i pairs[16];
  __m512 lower[16], upper[16];
};

/// The numbers of 16 rows at `depth`, which lie along the rows: pairs are neighbors.
void read_along(const TileSource& source, int64_t row, int64_t depth, TilePairs& tile) {
  const int64_t deep = smaller(kTileDepth, source.depth - depth);
  const __m512i even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
  const __m512i odd = _mm512_setr_epi32(1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
  for (int r = 0; r < 16; ++r) {
    const bool inside = row + r < source.count;
    const int64_t at = (row + r) * source.stride + depth;
    if (source.bf16 != nullptr) {
      const auto mask = static_cast<__mmask32>(!inside ? 0 : deep == 32 ? 0xffffffffu : (1u << deep) - 1);
      tile.pairs[r] = _mm512_maskz_loadu_epi16(mask, source.bf16 + at);
      continue;
    }
    const __m512 first = read_f32(source.f32 + at, inside ? deep : 0);
    const __m512 second = read_f32(source.f32 + at + 16, inside ? deep - 16 : 0);
    tile.lower[r] = _mm512_permutex2var_ps(first, even, second);
    tile.upper[r] = _mm512_permutex2var_ps(first, odd, second);
  }
}

/// The numbers of 16 columns at `depth`, which lies across the rows: pairs are below each other.
void read_across(const TileSource& source, int64_t column, int64_t depth, TilePairs& tile) {
  const int64_t count = source.count - column;
  for (int r = 0; r < 16; ++r) {
    const int64_t k = depth + 2 * r;
    const __mmask16 first = k < source.depth ? first_lanes(count) : __mmask16{0};
    const __mmask16 second = k + 1 < source.depth ? first_lanes(count) : __mmask16{0};
    const int64_t at = k * source.stride + column;
    if (source.bf16 != nullptr) {
      const __m256i low = _mm256_maskz_loadu_epi16(first, source.bf16 + at);
      const __m256i high = _mm256_maskz_loadu_epi16(second, source.bf16 + at + source.stride);
      tile.pairs[r] = _mm512_or_si512(_mm512_cvtepu16_epi32(low), _mm512_slli_epi32(_mm512_cvtepu16_epi32(high), 16));
      continue;
    }
    tile.lower[r] = _mm512_maskz_loadu_ps(first, source.f32 + at);
    tile.upper[r] = _mm512_maskz_loadu_ps(second, source.f32 + at + source.stride);
  }
}

/// Takes the nearest bf16 away from what is left.
void take_piece(TilePairs& tile) {
#pragma GCC unroll 16
  for (int r = 0; r < 16; ++r) {
    tile.pairs[r] = pairs_of(tile.lower[r], tile.upper[r]);
    tile.lower[r] = _mm512_sub_ps(tile.lower[r], lower_of_pairs(tile.pairs[r]));
    tile.upper[r] = _mm512_sub_ps(tile.upper[r], upper_of_pairs(tile.pairs[r]));
  }
}

template <bool Transposed>
void pack(const TileSource& source, int pieces, Bfloat16* to) {
  TilePairs tile;
  for (int64_t begin = 0; begin < source.count; begin += kBlock)
    for (int64_t depth = 0; depth < source.depth; depth += kTileDepth, to += pieces * 2 * kTileElements)
      for (int64_t half = 0; half < 2; ++half) {
        source.across ? read_across(source, begin + half * kTileRows, depth, tile)
                      : read_along(source, begin + half * kTileRows, depth, tile);
        for (int piece = 0; piece < pieces; ++piece) {
          if (source.f32 != nullptr) take_piece(tile);
          __m512i rows[16];
          for (int r = 0; r < 16; ++r) rows[r] = tile.pairs[r];
          if constexpr (Transposed) transpose_pairs(rows);
          Bfloat16* at = to + (2 * piece + half) * kTileElements;
          for (int r = 0; r < 16; ++r) _mm512_storeu_si512(at + r * kTileDepth, rows[r]);
        }
      }
}

void pack_left(const TileSource& source, int pieces, Bfloat16* to) {
  source.across ? pack<true>(source, pieces, to) : pack<false>(source, pieces, to);
}

void pack_right(const TileSource& source, int pieces, Bfloat16* to) {
  source.across ? pack<false>(source, pieces, to) : pack<true>(source, pieces, to);
}

/// Adds one block's products over the depth to the sums.
void add_products(const Bfloat16* left, const Bfloat16* right, int64_t tiles) {
  for (int64_t k = 0; k < tiles; ++k, left += 2 * kTileElements, right += 2 * kTileElements) {
    load_left_tiles(left);
    load_right_tiles(right);
    multiply_block();
  }
}

/// The same with numbers in three pieces. Each load but the first two serves four products, so one changes at a time.
void add_products_of_pieces(const Bfloat16* left, const Bfloat16* right, int64_t tiles) {
  constexpr int64_t kPiece = 2 * kTileElements;
  for (int64_t k = 0; k < tiles; ++k, left += 3 * kPiece, right += 3 * kPiece) {
    load_left_tiles(left + 2 * kPiece);
    load_right_tiles(right);
    multiply_block();
    load_left_tiles(left + kPiece);
    multiply_block();
    load_right_tiles(right + kPiece);
    multiply_block();
    load_left_tiles(left);
    multiply_block();
    load_right_tiles(right + 2 * kPiece);
    multiply_block();
    load_right_tiles(right);
    multiply_block();
  }
}

/// The part of y that a block at the matrix's edge adds to; zero past it.
void read_edge(const TileProduct& p, int64_t row, int64_t column, int64_t rows, int64_t columns, float* sums) {
  for (int64_t r = 0; r < kBlock; ++r)
    for (int64_t c = 0; c < kBlock; c += 16)
      _mm512_store_ps(sums + r * kBlock + c,
                      read_f32(p.y + (row + r) * p.y_stride + column + c, r < rows ? columns - c : 0));
}

/// Brings a block of sums to where it belongs, `rows` by `columns` of it.
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

void multiply(const TileProduct& p) {
  const ConfiguredTiles tiles;
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
      if (p.accumulate)
        load_sums(y, stride);
      else
        zero_sums();
      const Bfloat16* left = p.left + row / kBlock * block_size;
      const Bfloat16* right = p.right + column / kBlock * block_size;
      p.pieces == 1 ? add_products(left, right, depth) : add_products_of_pieces(left, right, depth);
      store_sums(y, stride);
      if (!in_place) finish(p, sums, row, column, rows, columns);
    }
}

}  // namespace

extern const TileKernels kTiles;
const TileKernels kTiles = {
    .packed = packed, .pack_left = pack_left, .pack_right = pack_right, .multiply = multiply, .block = kBlock};

}  // namespace dptrain::ops::DPTRAIN_ISA_NAMESPACE
