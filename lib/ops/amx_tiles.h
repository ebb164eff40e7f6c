#pragma once

#include <immintrin.h>

#include <cstdint>

#include "tensor/bfloat16.h"

// AMX, for *_amx.cc only: a thread's eight tiles of 16 rows by 64 bytes, and the forms of its operands. With sums of
// 16 x 16 floats, a left tile is 16 rows by 32 bf16 of depth; a right tile has for each of 16 pairs of depth the 16
// columns' pairs. One is the transpose of the other, by pairs.

namespace dptrain::ops::DPTRAIN_ISA_NAMESPACE {
namespace {

constexpr int64_t kTileRows = 16, kTileDepth = 32, kTileElements = kTileRows * kTileDepth, kTileBytesOfRow = 64;

// GCC's own functions don't say that they read memory. A tile's number is part of its instruction.

template <int Tile>
[[gnu::always_inline]] inline void load_tile(const void* from, int64_t row_bytes) {
  __asm__ volatile("tileloadd (%0,%1,1), %%tmm%c2" ::"r"(from), "r"(row_bytes), "i"(Tile) : "memory");
}
template <int Tile>
[[gnu::always_inline]] inline void store_tile(void* to, int64_t row_bytes) {
  __asm__ volatile("tilestored %%tmm%c2, (%0,%1,1)" ::"r"(to), "r"(row_bytes), "i"(Tile) : "memory");
}
template <int Tile>
[[gnu::always_inline]] inline void zero_tile() {
  __asm__ volatile("tilezero %%tmm%c0" ::"i"(Tile));
}
/// Sums += Left * Right.
template <int Sums, int Left, int Right>
[[gnu::always_inline]] inline void multiply_tiles() {
  __asm__ volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(Sums), "i"(Left), "i"(Right));
}

/// The tiles are the thread's to use as long as this lives. A block of 2 x 2 tiles of sums is 0 to 3, its left tiles
/// are 4 and 5, its right ones 6 and 7: each tile that is loaded serves twice.
class ConfiguredTiles {
 public:
  ConfiguredTiles() {
    struct alignas(64) {
      uint8_t palette = 1, start_row = 0, reserved[14] = {};
      uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
      uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
    } const configuration;
    __asm__ volatile("ldtilecfg (%0)" ::"r"(&configuration) : "memory");
  }
  ~ConfiguredTiles() { __asm__ volatile("tilerelease"); }
  ConfiguredTiles(const ConfiguredTiles&) = delete;
  ConfiguredTiles& operator=(const ConfiguredTiles&) = delete;
};

// With one row or column of tiles, the block's edge, the second ones of a kind have no part.
template <int Rows = 2>
[[gnu::always_inline]] inline void load_left_tiles(const Bfloat16* at) {
  load_tile<4>(at, kTileBytesOfRow);
  if constexpr (Rows == 2) load_tile<5>(at + kTileElements, kTileBytesOfRow);
}
template <int Columns = 2>
[[gnu::always_inline]] inline void load_right_tiles(const Bfloat16* at) {
  load_tile<6>(at, kTileBytesOfRow);
  if constexpr (Columns == 2) load_tile<7>(at + kTileElements, kTileBytesOfRow);
}
template <int Rows = 2, int Columns = 2>
[[gnu::always_inline]] inline void multiply_block() {
  multiply_tiles<0, 4, 6>();
  if constexpr (Columns == 2) multiply_tiles<1, 4, 7>();
  if constexpr (Rows == 2) multiply_tiles<2, 5, 6>();
  if constexpr (Rows == 2 && Columns == 2) multiply_tiles<3, 5, 7>();
}
[[gnu::always_inline]] inline void zero_sums() {
  zero_tile<0>();
  zero_tile<1>();
  zero_tile<2>();
  zero_tile<3>();
}
/// The block's 32 rows of 32 sums, which are `stride` floats apart.
inline void load_sums(const float* from, int64_t stride) {
  load_tile<0>(from, 4 * stride);
  load_tile<1>(from + kTileRows, 4 * stride);
  load_tile<2>(from + kTileRows * stride, 4 * stride);
  load_tile<3>(from + kTileRows * stride + kTileRows, 4 * stride);
}
inline void store_sums(float* to, int64_t stride) {
  store_tile<0>(to, 4 * stride);
  store_tile<1>(to + kTileRows, 4 * stride);
  store_tile<2>(to + kTileRows * stride, 4 * stride);
  store_tile<3>(to + kTileRows * stride + kTileRows, 4 * stride);
}

inline int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

inline __mmask16 first_lanes(int64_t count) {
  return static_cast<__mmask16>(count >= 16 ? 0xffff : count <= 0 ? 0 : (1 << count) - 1);
}

/// max(0, x); a NaN isn't at most 0, and passes.
inline __m512 positive(__m512 x) {
  return _mm512_mask_mov_ps(x, _mm512_cmp_ps_mask(x, _mm512_setzero_ps(), _CMP_LE_OQ), _mm512_setzero_ps());
}

/// 16 rows of 16 pairs become 16 columns.
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

/// 16 floats of the bf16 that lie in the lower or the upper halves of 16 pairs.
inline __m512 lower_of_pairs(__m512i pairs) { return _mm512_castsi512_ps(_mm512_slli_epi32(pairs, 16)); }
inline __m512 upper_of_pairs(__m512i pairs) {
  return _mm512_castsi512_ps(_mm512_and_si512(pairs, _mm512_set1_epi32(static_cast<int>(0xffff0000u))));
}

/// The floats rounded to bf16, as 16 pairs of a lower and an upper one.
inline __m512i pairs_of(__m512 lower, __m512 upper) {
  const __m512i low = _mm512_cvtepu16_epi32(reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(lower)));
  const __m512i high = _mm512_cvtepu16_epi32(reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(upper)));
  return _mm512_or_si512(low, _mm512_slli_epi32(high, 16));
}

}  // namespace
}  // namespace dptrain::ops::DPTRAIN_ISA_NAMESPACE
