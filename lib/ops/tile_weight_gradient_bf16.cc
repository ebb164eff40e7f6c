#include "ops/tile_block.h"
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

/// Brings a tile of sums, [16 outputs, 16 inputs], to its block of weights.
void finish(const float* sums, float* block, bool accumulate) {
  __m512i rows[16];
  for (int64_t r = 0; r < 16; ++r) rows[r] = _mm512_load_si512(sums + r * kBlock);
  transpose_pairs(rows);
  for (int64_t r = 0; r < 16; ++r) {
    __m512 sum = _mm512_castsi512_ps(rows[r]);
    if (accumulate) sum = _mm512_add_ps(sum, _mm512_loadu_ps(block + r * 16));
    _mm512_storeu_ps(block + r * 16, sum);
  }
}

void multiply(const TileWeightGradient& p) {
  [[maybe_unused]] const BlockUnit unit;
  alignas(64) float sums[kBlock * kBlock];
  for (int64_t pass = 0; pass < p.pass_count; ++pass) {
    const WeightGradientPass& of = p.passes[pass];
    const Bfloat16 *left = p.left, *first = p.right + of.right[0], *second = p.right + of.right[1];
    const auto steps = [&](const auto& step) {
      for (int64_t k = 0; k < p.steps; ++k)
        step(left + k * 2 * kTileElements, first + k * kTileElements, second + k * kTileElements);
    };
    multiply_block<2, 2>(steps, false, sums, kBlock);
    for (int64_t output = 0; output < p.output_blocks; ++output)
      for (int64_t i = 0; i < 2; ++i)
        if (of.block[i] >= 0)
          finish(sums + output * kTileRows * kBlock + i * 16, p.sums + output * p.output_stride + of.block[i],
                 p.accumulate);
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
