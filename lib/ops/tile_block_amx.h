#pragma once

#include "ops/bf16_tiles.h"

// Products of blocks by AMX, for *_bf16.cc only. A thread has eight tiles of 16 rows by 64 bytes.

namespace dptrain::ops::DPTRAIN_ISA_NAMESPACE {
namespace {

constexpr int64_t kTileBytesOfRow = 64;

// GCC's own functions don't declare that they read memory. A tile's number is part of its instruction.

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

/// Reserves AMX's tiles for the thread during its lifetime. A block's 2 x 2 tiles of sums are 0 to 3, its left tiles
/// are 4 and 5, its right ones 6 and 7.
class BlockUnit {
 public:
  BlockUnit() {
    struct alignas(64) {
      uint8_t palette = 1, start_row = 0, reserved[14] = {};
      uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
      uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
    } const configuration;
    __asm__ volatile("ldtilecfg (%0)" ::"r"(&configuration) : "memory");
  }
  ~BlockUnit() { __asm__ volatile("tilerelease"); }
  BlockUnit(const BlockUnit&) = delete;
  BlockUnit& operator=(const BlockUnit&) = delete;
};

// At a block's edge there is only one row or column of tiles; its second tiles are then left out.
template <int Rows>
[[gnu::always_inline]] inline void load_left_tiles(const Bfloat16* at) {
  load_tile<4>(at, kTileBytesOfRow);
  if constexpr (Rows == 2) load_tile<5>(at + kTileElements, kTileBytesOfRow);
}
template <int Columns>
[[gnu::always_inline]] inline void load_right_tiles(const Bfloat16* first, const Bfloat16* second) {
  load_tile<6>(first, kTileBytesOfRow);
  if constexpr (Columns == 2) load_tile<7>(second, kTileBytesOfRow);
}
template <int Rows, int Columns>
[[gnu::always_inline]] inline void multiply_loaded() {
  multiply_tiles<0, 4, 6>();
  if constexpr (Columns == 2) multiply_tiles<1, 4, 7>();
  if constexpr (Rows == 2) multiply_tiles<2, 5, 6>();
  if constexpr (Rows == 2 && Columns == 2) multiply_tiles<3, 5, 7>();
}

/// Loads the block's 32 rows of 32 sums, `stride` floats apart, or zeros.
inline void load_sums(bool from_memory, const float* from, int64_t stride) {
  if (from_memory) {
    load_tile<0>(from, 4 * stride);
    load_tile<1>(from + kTileRows, 4 * stride);
    load_tile<2>(from + kTileRows * stride, 4 * stride);
    load_tile<3>(from + kTileRows * stride + kTileRows, 4 * stride);
  } else {
    zero_tile<0>();
    zero_tile<1>();
    zero_tile<2>();
    zero_tile<3>();
  }
}
inline void store_sums(float* to, int64_t stride) {
  store_tile<0>(to, 4 * stride);
  store_tile<1>(to + kTileRows, 4 * stride);
  store_tile<2>(to + kTileRows * stride, 4 * stride);
  store_tile<3>(to + kTileRows * stride + kTileRows, 4 * stride);
}

template <int Rows, int Columns, class Steps>
void multiply_block(const Steps& steps, bool accumulate, float* sums, int64_t stride) {
  load_sums(accumulate, sums, stride);
  steps([](const Bfloat16* left, const Bfloat16* right, const Bfloat16* second_right) {
    load_left_tiles<Rows>(left);
    load_right_tiles<Columns>(right, second_right);
    multiply_loaded<Rows, Columns>();
  });
  store_sums(sums, stride);
}

/// Like multiply_block, for numbers in three pieces whose tiles are adjacent in memory. Six products are added, in an
/// order in which only one factor's piece changes at a time, the largest product last.
template <int Rows, int Columns, class Steps>
void multiply_block_of_pieces(const Steps& steps, bool accumulate, float* sums, int64_t stride) {
  constexpr int64_t kPiece = 2 * kTileElements;
  load_sums(accumulate, sums, stride);
  steps([](const Bfloat16* left, const Bfloat16* right, const Bfloat16* second_right) {
    load_left_tiles<Rows>(left + 2 * kPiece);
    load_right_tiles<Columns>(right, second_right);
    multiply_loaded<Rows, Columns>();
    load_left_tiles<Rows>(left + kPiece);
    multiply_loaded<Rows, Columns>();
    load_right_tiles<Columns>(right + kPiece, second_right + kPiece);
    multiply_loaded<Rows, Columns>();
    load_left_tiles<Rows>(left);
    multiply_loaded<Rows, Columns>();
    load_right_tiles<Columns>(right + 2 * kPiece, second_right + 2 * kPiece);
    multiply_loaded<Rows, Columns>();
    load_right_tiles<Columns>(right, second_right);
    multiply_loaded<Rows, Columns>();
  });
  store_sums(sums, stride);
}

}  // namespace
}  // namespace dptrain::ops::DPTRAIN_ISA_NAMESPACE
