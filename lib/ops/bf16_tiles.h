#pragma once

#include <immintrin.h>

#include <cstdint>

#include "tensor/bfloat16.h"

// Tiles and vectors of bf16, for *_bf16.cc only. Products of tiles have sums of 16 x 16 floats. A left tile is 16 rows
// by 32 bf16 of depth. A right tile has 16 rows, one for each pair of depths, and each row has the pairs of 16 columns.
// Transposing a left tile by pairs gives a right tile.

namespace dptrain::ops::DPTRAIN_ISA_NAMESPACE {
namespace {

constexpr int64_t kTileRows = 16, kTileDepth = 32, kTileElements = kTileRows * kTileDepth;

/// Two by two tiles are computed at once, so that each loaded tile is used twice.
constexpr int64_t kBlock = 2 * kTileRows;

inline int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

inline __mmask16 first_lanes(int64_t count) {
  return static_cast<__mmask16>(count >= 16 ? 0xffff : count <= 0 ? 0 : (1 << count) - 1);
}

/// max(0, x); the comparison is false for NaN, which therefore stays.
inline __m512 positive(__m512 x) {
  return _mm512_mask_mov_ps(x, _mm512_cmp_ps_mask(x, _mm512_setzero_ps(), _CMP_LE_OQ), _mm512_setzero_ps());
}

/// Transposes 16 rows of 16 pairs.
inline void transpose_pairs(__m512i rows[16]) {
  __m512i t[16];
#pragma GCC unroll 8
  for (int i = 0; i < 16; i += 2) {
    t[i] = _mm512_unpacklo_epi32(rows[i], rows[i + 1]);
    t[i + 1] = _mm512_unpackhi_epi32(rows[i], rows[i + 1]);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 16; i += 4) {
    rows[i] = _mm512_unpacklo_epi64(t[i], t[i + 2]);
    rows[i + 1] = _mm512_unpackhi_epi64(t[i], t[i + 2]);
    rows[i + 2] = _mm512_unpacklo_epi64(t[i + 1], t[i + 3]);
    rows[i + 3] = _mm512_unpackhi_epi64(t[i + 1], t[i + 3]);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    t[i] = _mm512_shuffle_i32x4(rows[i], rows[i + 4], 0x88);
    t[i + 4] = _mm512_shuffle_i32x4(rows[i], rows[i + 4], 0xdd);
    t[i + 8] = _mm512_shuffle_i32x4(rows[i + 8], rows[i + 12], 0x88);
    t[i + 12] = _mm512_shuffle_i32x4(rows[i + 8], rows[i + 12], 0xdd);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    rows[i] = _mm512_shuffle_i32x4(t[i], t[i + 8], 0x88);
    rows[i + 8] = _mm512_shuffle_i32x4(t[i], t[i + 8], 0xdd);
    rows[i + 4] = _mm512_shuffle_i32x4(t[i + 4], t[i + 12], 0x88);
    rows[i + 12] = _mm512_shuffle_i32x4(t[i + 4], t[i + 12], 0xdd);
  }
}

/// Rounds the floats to bf16 and interleaves them as 16 pairs of a lower and an upper one.
inline __m512i pairs_of(__m512 lower, __m512 upper) {
  const __m512i low = _mm512_cvtepu16_epi32(reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(lower)));
  const __m512i high = _mm512_cvtepu16_epi32(reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(upper)));
  return _mm512_or_si512(low, _mm512_slli_epi32(high, 16));
}

}  // namespace
}  // namespace dptrain::ops::DPTRAIN_ISA_NAMESPACE
