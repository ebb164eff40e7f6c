#include "ops/amx_tiles.h"
#include "ops/tile_weight_gradient.h"

namespace dptrain::ops::DPTRAIN_ISA_NAMESPACE {
namespace {

/// 16 channels of 32 positions as pairs of positions, a register for each.
void read_pairs(const Bfloat16* positions, __m512i pairs[16]) {
  for (int64_t r = 0; r < 16; ++r) {
    const auto* at = reinterpret_cast<const __m256i*>(positions + 2 * r * kTileDepth);
    const __m512i even = _mm512_cvtepu16_epi32(_mm256_loadu_si256(at));
    const __m512i odd = _mm512_cvtepu16_epi32(_mm256_loadu_si256(at + 2));
    pairs[r] = _mm512_or_si512(even, _mm512_slli_epi32(odd, 16));
  }
}

void pack_rows(const Bfloat16* positions, Bfloat16* to, int64_t row_length) {
  for (int64_t half = 0; half < kTileDepth; half += 16) {
    __m512i rows[16];
    read_pairs(positions + half, rows);
    transpose_pairs(rows);
    for (int64_t r = 0; r < 16; ++r) _mm512_storeu_si512(to + (half + r) * row_length, rows[r]);
  }
}

void pack_pairs(const Bfloat16* positions, Bfloat16* to) {
  for (int64_t half = 0; half < kTileDepth; half += 16) {
    __m512i pairs[16];
    read_pairs(positions + half, pairs);
    for (int64_t r = 0; r < 16; ++r, to += kTileDepth) _mm512_storeu_si512(to, pairs[r]);
  }
}

/// Steps whose operands stay in the first-level cache while every tap reads them.
constexpr int64_t kSteps = 8;

struct BlockOfSums {
  float* at[4];  ///< of tiles 0 to 3; null past the last channel

  void load() const {
    zero_sums();
    if (at[0] != nullptr) load_tile<0>(at[0], kTileBytesOfRow);
    if (at[1] != nullptr) load_tile<1>(at[1], kTileBytesOfRow);
    if (at[2] != nullptr) load_tile<2>(at[2], kTileBytesOfRow);
    if (at[3] != nullptr) load_tile<3>(at[3], kTileBytesOfRow);
  }
  void store() const {
    if (at[0] != nullptr) store_tile<0>(at[0], kTileBytesOfRow);
    if (at[1] != nullptr) store_tile<1>(at[1], kTileBytesOfRow);
    if (at[2] != nullptr) store_tile<2>(at[2], kTileBytesOfRow);
    if (at[3] != nullptr) store_tile<3>(at[3], kTileBytesOfRow);
  }
};

BlockOfSums block_of(const TileWeightGradient& p, int64_t tap) {
  float* first = p.sums + p.taps[tap] * kTileRows * 16;
  float* next_input = p.input_stride > 0 ? first + p.input_stride : nullptr;
  float* next_output = p.output_stride > 0 ? first + p.output_stride : nullptr;
  return {{first, next_output, next_input,
           next_input == nullptr || next_output == nullptr ? nullptr : next_input + p.output_stride}};
}

void multiply(const TileWeightGradient& p) {
  const ConfiguredTiles tiles;
  const int64_t row_bytes = p.row_length * static_cast<int64_t>(sizeof(Bfloat16));
  for (int64_t first = 0; first < p.steps; first += kSteps) {
    const int64_t last = smaller(first + kSteps, p.steps);
    for (int64_t t = 0; t < p.tap_count; ++t) {
      const BlockOfSums sums = block_of(p, t);
      if (p.accumulate || first > 0)
        sums.load();
      else
        zero_sums();
      const Bfloat16* left = p.left + p.tap_starts[t];
      for (int64_t step = first; step < last; ++step) {
        load_tile<4>(left + step * kTileDepth, row_bytes);
        load_tile<5>(left + step * kTileDepth + kTileRows * p.row_length, row_bytes);
        load_right_tiles(p.right + step * 2 * kTileElements);
        multiply_block();
      }
      sums.store();
    }
  }
}

void add_positions(const Bfloat16* positions, int64_t count, double* sums) {
  __m512d totals[4];
  for (int64_t i = 0; i < 4; ++i) totals[i] = _mm512_loadu_pd(sums + 8 * i);
  for (int64_t position = 0; position < count; ++position)
    for (int64_t i = 0; i < 4; ++i) {
      const auto* at = reinterpret_cast<const __m128i*>(positions + position * kTileDepth + 8 * i);
      const __m256i wide = _mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128(at)), 16);
      totals[i] = _mm512_add_pd(totals[i], _mm512_cvtps_pd(_mm256_castsi256_ps(wide)));
    }
  for (int64_t i = 0; i < 4; ++i) _mm512_storeu_pd(sums + 8 * i, totals[i]);
}

}  // namespace

extern const WeightGradientTileKernels kWeightGradientTiles;
const WeightGradientTileKernels kWeightGradientTiles = {
    .pack_rows = pack_rows, .pack_pairs = pack_pairs, .multiply = multiply, .add_positions = add_positions};

}  // namespace dptrain::ops::DPTRAIN_ISA_NAMESPACE
