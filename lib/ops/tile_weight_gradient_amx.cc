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

void pack_rows(const Bfloat16* positions, Bfloat16* to) {
  for (int64_t half = 0; half < kTileDepth; half += 16) {
    __m512i rows[16];
    read_pairs(positions + half, rows);
    transpose_pairs(rows);
    for (int64_t r = 0; r < 16; ++r, to += kTileDepth) _mm512_storeu_si512(to, rows[r]);
  }
}

void pack_pairs(const Bfloat16* positions, Bfloat16* to, int64_t half) {
  for (int64_t i = 0; i < 2; ++i) {
    __m512i pairs[16];
    read_pairs(positions + 16 * i, pairs);
    for (int64_t r = 0; r < 16; ++r) _mm512_storeu_si512(to + i * half + r * kTileDepth, pairs[r]);
  }
}

/// Where the sums of one tap lie: tiles 0 to 3, [16 outputs, 16 inputs] each; null past the last channel.
struct BlockOfSums {
  BlockOfSums(const TileWeightGradient& p, int64_t tap) {
    float* first = p.sums + p.taps[tap] * kFloats;
    at[0] = first;
    at[1] = p.input_stride > 0 ? first + p.input_stride : nullptr;
    at[2] = p.output_stride > 0 ? first + p.output_stride : nullptr;
    at[3] = at[1] != nullptr && at[2] != nullptr ? at[1] + p.output_stride : nullptr;
  }

  void transpose() const {
    for (float* block : at) {
      if (block == nullptr) continue;
      __m512i rows[16];
      for (int64_t r = 0; r < 16; ++r) rows[r] = _mm512_loadu_si512(block + 16 * r);
      transpose_pairs(rows);
      for (int64_t r = 0; r < 16; ++r) _mm512_storeu_si512(block + 16 * r, rows[r]);
    }
  }
  void load() const {
    load_tile<0>(at[0], kTileBytesOfRow);
    if (at[1] != nullptr) load_tile<1>(at[1], kTileBytesOfRow);
    if (at[2] != nullptr) load_tile<2>(at[2], kTileBytesOfRow);
    if (at[3] != nullptr) load_tile<3>(at[3], kTileBytesOfRow);
  }
  void store() const {
    store_tile<0>(at[0], kTileBytesOfRow);
    if (at[1] != nullptr) store_tile<1>(at[1], kTileBytesOfRow);
    if (at[2] != nullptr) store_tile<2>(at[2], kTileBytesOfRow);
    if (at[3] != nullptr) store_tile<3>(at[3], kTileBytesOfRow);
  }

  static constexpr int64_t kFloats = kTileRows * 16;
  float* at[4];
};

void multiply(const TileWeightGradient& p) {
  const ConfiguredTiles tiles;
  for (int64_t t = 0; t < p.tap_count; ++t) {
    const BlockOfSums sums(p, t);
    zero_sums();
    if (p.accumulate && p.begins) sums.transpose();
    if (p.accumulate) sums.load();
    const Bfloat16 *left = p.left, *right = p.right + p.tap_starts[t];
    for (int64_t step = 0; step < p.steps; ++step, left += 2 * kTileElements, right += kTileElements) {
      load_left_tiles(left);
      load_tile<6>(right, kTileBytesOfRow);
      load_tile<7>(right + p.right_half, kTileBytesOfRow);
      multiply_block();
    }
    sums.store();
    if (p.ends) sums.transpose();
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
