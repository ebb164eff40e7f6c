#pragma once

#include <cstring>

#include "ops/bf16_tiles.h"

// Products of blocks by AVX-512's instruction for pairs of bf16, for *_bf16.cc only.

namespace dptrain::ops::DPTRAIN_ISA_NAMESPACE {
namespace {

/// An empty counterpart of AMX's BlockUnit: there are no tiles to configure.
struct [[maybe_unused]] BlockUnit {};

/// Broadcasts a pair of a left tile's row to all lanes.
[[gnu::always_inline]] inline __m512bh pair_in_all_lanes(const Bfloat16* pair) {
  int32_t bits;
  std::memcpy(&bits, pair, sizeof bits);
  return reinterpret_cast<__m512bh>(_mm512_set1_epi32(bits));
}
[[gnu::always_inline]] inline __m512bh load_pairs(const Bfloat16* from) {
  return reinterpret_cast<__m512bh>(_mm512_loadu_si512(from));
}

/// Computes `Count` rows of a block from `row` on. Their sums stay in registers over the whole depth.
template <int Count, int Columns, class Steps>
void multiply_rows(const Steps& steps, int64_t row, bool accumulate, float* sums, int64_t stride) {
  __m512 rows[Count][Columns];
  sums += row * stride;
#pragma GCC unroll 16
  for (int r = 0; r < Count; ++r)
#pragma GCC unroll 2
    for (int c = 0; c < Columns; ++c)
      rows[r][c] = accumulate ? _mm512_loadu_ps(sums + r * stride + 16 * c) : _mm512_setzero_ps();
  steps([&](const Bfloat16* left, const Bfloat16* right, const Bfloat16* second_right) __attribute__((always_inline)) {
    left += row * kTileDepth;
#pragma GCC unroll 1
    for (int64_t k = 0; k < kTileDepth; k += 2) {
      const __m512bh first = load_pairs(right + k * kTileRows);
      const __m512bh second = Columns == 2 ? load_pairs(second_right + k * kTileRows) : first;
#pragma GCC unroll 16
      for (int r = 0; r < Count; ++r) {
        const __m512bh pair = pair_in_all_lanes(left + r * kTileDepth + k);
        rows[r][0] = _mm512_dpbf16_ps(rows[r][0], pair, first);
        if constexpr (Columns == 2) rows[r][1] = _mm512_dpbf16_ps(rows[r][1], pair, second);
      }
    }
  });
#pragma GCC unroll 16
  for (int r = 0; r < Count; ++r)
#pragma GCC unroll 2
    for (int c = 0; c < Columns; ++c) _mm512_storeu_ps(sums + r * stride + 16 * c, rows[r][c]);
}

/// Computes as many rows at a time as registers allow. The right tiles are read again for each group of rows.
template <int Rows, int Columns, class Steps>
void multiply_block(const Steps& steps, bool accumulate, float* sums, int64_t stride) {
  if constexpr (Rows == 1) {
    multiply_rows<8, Columns>(steps, 0, accumulate, sums, stride);
    multiply_rows<8, Columns>(steps, 8, accumulate, sums, stride);
  } else {
    multiply_rows<11, Columns>(steps, 0, accumulate, sums, stride);
    multiply_rows<11, Columns>(steps, 11, accumulate, sums, stride);
    multiply_rows<10, Columns>(steps, 22, accumulate, sums, stride);
  }
}

}  // namespace
}  // namespace dptrain::ops::DPTRAIN_ISA_NAMESPACE
