#include "ops/tile_block.h"
#include "ops/tile_position_reader.h"
#include "ops/tile_weight_gradient.h"

namespace dptrain::ops::DPTRAIN_ISA_NAMESPACE {
namespace {

/// Two positions as pairs, for the lower 16 channels and for the upper ones.
struct Pairs {
  Pairs(__m512i first, __m512i second)
      : lower(pair(_mm512_castsi512_si256(first), _mm512_castsi512_si256(second))),
        upper(pair(_mm512_extracti64x4_epi64(first, 1), _mm512_extracti64x4_epi64(second, 1))) {}
  static __m512i pair(__m256i first, __m256i second) {
    return _mm512_or_si512(_mm512_cvtepu16_epi32(first), _mm512_slli_epi32(_mm512_cvtepu16_epi32(second), 16));
  }
  __m512i lower, upper;
};

void pack_rows(const TilePositions& positions, int64_t begin, int64_t end, Bfloat16* to) {
  __m512i lower[16], upper[16], first = _mm512_setzero_si512();
  int64_t taken = 0;
  read_positions(positions, begin, end, [&](__m512i channels) {
    if (taken % 2 == 0) {
      first = channels;
      ++taken;
      return;
    }
    const Pairs pairs(first, channels);
    lower[taken / 2] = pairs.lower, upper[taken / 2] = pairs.upper;
    if (++taken < kTileDepth) return;
    taken = 0;
    transpose_pairs(lower);
    transpose_pairs(upper);
    for (int64_t r = 0; r < 16; ++r) {
      _mm512_storeu_si512(to + r * kTileDepth, lower[r]);
      _mm512_storeu_si512(to + kTileElements + r * kTileDepth, upper[r]);
    }
    to += 2 * kTileElements;
  });
}

void pack_pairs(const TilePositions& positions, int64_t begin, int64_t end, Bfloat16* const to[2], int64_t half) {
  Bfloat16 *even = to[0], *odd = to[1];
  __m512i before = _mm512_setzero_si512();
  bool at_even = false, has_before = false;
  read_positions(positions, begin, end + 1, [&](__m512i channels) {
    if (has_before) {
      const Pairs pairs(before, channels);
      Bfloat16*& at = at_even ? even : odd;
      _mm512_storeu_si512(at, pairs.lower);
      _mm512_storeu_si512(at + half, pairs.upper);
      at += kTileDepth;
    }
    before = channels, has_before = true, at_even = !at_even;
  });
}

/// Transposes a tile of sums, [16 outputs, 16 inputs], and writes or adds it to its block of weights.
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

/// Computes the gradient for `Rows` blocks of 16 output channels.
template <int Rows>
void multiply_outputs(const TileWeightGradient& p) {
  alignas(64) float sums[kBlock * kBlock];
  for (int64_t pass = 0; pass < p.pass_count; ++pass) {
    const WeightGradientPass& of = p.passes[pass];
    const Bfloat16 *left = p.left, *first = p.right + of.right[0], *second = p.right + of.right[1];
    const auto steps = [&](const auto& step) {
      for (int64_t k = 0; k < p.steps; ++k)
        step(left + k * 2 * kTileElements, first + k * kTileElements, second + k * kTileElements);
    };
    multiply_block<Rows, 2>(steps, false, sums, kBlock);
    for (int64_t output = 0; output < Rows; ++output)
      for (int64_t i = 0; i < 2; ++i)
        if (of.block[i] >= 0)
          finish(sums + output * kTileRows * kBlock + i * 16, p.sums + output * p.output_stride + of.block[i],
                 p.accumulate);
  }
}

void multiply(const TileWeightGradient& p) {
  [[maybe_unused]] const BlockUnit unit;
  p.output_blocks == 2 ? multiply_outputs<2>(p) : multiply_outputs<1>(p);
}

void add_positions(const TilePositions& positions, int64_t begin, int64_t end, double* sums) {
  __m512d totals[4];
  for (int64_t i = 0; i < 4; ++i) totals[i] = _mm512_loadu_pd(sums + 8 * i);
  const auto add = [&](__m256i bits, int64_t at) {
    const __m512 wide = _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16));
    totals[at] = _mm512_add_pd(totals[at], _mm512_cvtps_pd(_mm512_castps512_ps256(wide)));
    totals[at + 1] = _mm512_add_pd(totals[at + 1], _mm512_cvtps_pd(_mm512_extractf32x8_ps(wide, 1)));
  };
  read_positions(positions, begin, end, [&](__m512i channels) {
    add(_mm512_castsi512_si256(channels), 0);
    add(_mm512_extracti64x4_epi64(channels, 1), 2);
  });
  for (int64_t i = 0; i < 4; ++i) _mm512_storeu_pd(sums + 8 * i, totals[i]);
}

}  // namespace

extern const WeightGradientTileKernels kWeightGradientTiles;
const WeightGradientTileKernels kWeightGradientTiles = {
    .pack_rows = pack_rows, .pack_pairs = pack_pairs, .add_positions = add_positions, .multiply = multiply};

}  // namespace dptrain::ops::DPTRAIN_ISA_NAMESPACE
