#pragma once

#include <cstdint>

#include "ops/vector_lanes.h"

// Products of matrices that fit the second-level cache, on the calling thread. For *_kernels.cc only: each instruction
// set compiles its own copy, which no other file sees.

namespace dptrain::ops::DPTRAIN_ISA_NAMESPACE {
namespace {

// A tile of the result is kept in registers: 24 of 32 on AVX-512, and 12 of 16 on machines without it. The rest has
// room for two registers of the right matrix's row and one for a number of the left. That many independent sums hide
// the latency of an addition.
constexpr int kTileRows = kRegisterLanes == 16 ? 12 : 6;

/// The right matrix is read in panels of this many columns, each [depth, kPanel], so that a tile reads memory
/// sequentially.
constexpr int64_t kPanel = 2 * kRegisterLanes;

inline int64_t whole_panels(int64_t columns) { return (columns + kPanel - 1) / kPanel * kPanel; }

/// Packs the rows x columns matrix at `from` into panels; columns past the last are zero.
inline void pack_rows(const float* from, int64_t row_stride, int64_t rows, int64_t columns, float* __restrict panels) {
  for (int64_t column = 0; column < columns; column += kPanel) {
    const int64_t count = columns - column < kPanel ? columns - column : kPanel;
    for (int64_t row = 0; row < rows; ++row, panels += kPanel) {
      const float* in = from + row * row_stride + column;
      if (count == kPanel) {
        store<kRegisterLanes>(panels, load<kRegisterLanes>(in));
        store<kRegisterLanes>(panels + kRegisterLanes, load<kRegisterLanes>(in + kRegisterLanes));
        continue;
      }
      for (int64_t c = 0; c < count; ++c) panels[c] = in[c];
      for (int64_t c = count; c < kPanel; ++c) panels[c] = 0;
    }
  }
}

/// Packs the transpose of the matrix at `from`: its rows become columns.
inline void pack_columns(const float* from, int64_t row_stride, int64_t rows, int64_t columns,
                         float* __restrict panels) {
  for (int64_t row = 0; row < rows; row += kPanel) {
    const int64_t count = rows - row < kPanel ? rows - row : kPanel;
    int64_t column = 0;
    for (; count == kPanel && column + kRegisterLanes <= columns; column += kRegisterLanes) {
      for (int half = 0; half < 2; ++half) {
        Row<kRegisterLanes> block[kRegisterLanes];
        const float* in = from + (row + half * kRegisterLanes) * row_stride + column;
#pragma GCC unroll 16
        for (int r = 0; r < kRegisterLanes; ++r) block[r] = load<kRegisterLanes>(in + r * row_stride);
        transpose<kRegisterLanes>(block);
#pragma GCC unroll 16
        for (int c = 0; c < kRegisterLanes; ++c)
          store<kRegisterLanes>(panels + c * kPanel + half * kRegisterLanes, block[c]);
      }
      panels += kRegisterLanes * kPanel;
    }
    for (; column < columns; ++column, panels += kPanel) {
      const float* in = from + row * row_stride + column;
      for (int64_t r = 0; r < count; ++r) panels[r] = in[r * row_stride];
      for (int64_t r = count; r < kPanel; ++r) panels[r] = 0;
    }
  }
}

/// Computes c = a * b, or c += a * b. a(i, k) is at a + i * a_row + k * a_depth, so that `a` can be read transposed. b
/// is in panels. c(i, j) is at c + i * c_row + j; whole panels of columns are written.
struct SmallProduct {
  int64_t rows, columns, depth;
  const float* a;
  int64_t a_row, a_depth;
  const float* b;
  float* c;
  int64_t c_row;
  bool accumulate = false;
};

template <int R>
inline void multiply_tile(const SmallProduct& p, int64_t row, int64_t column) {
  using Vector = Row<kRegisterLanes>;
  const float* a = p.a + row * p.a_row;
  const float* b = p.b + column * p.depth;
  float* c = p.c + row * p.c_row + column;
  Vector sums[R][2];
#pragma GCC unroll 12
  for (int r = 0; r < R; ++r) sums[r][0] = sums[r][1] = Vector{};
  for (int64_t k = 0; k < p.depth; ++k) {
    const Vector left = load<kRegisterLanes>(b + k * kPanel),
                 right = load<kRegisterLanes>(b + k * kPanel + kRegisterLanes);
#pragma GCC unroll 12
    for (int r = 0; r < R; ++r) {
      const float value = a[r * p.a_row + k * p.a_depth];
      sums[r][0] += value * left;
      sums[r][1] += value * right;
    }
  }
#pragma GCC unroll 12
  for (int r = 0; r < R; ++r) {
    float *left = c + r * p.c_row, *right = left + kRegisterLanes;
    store<kRegisterLanes>(left, p.accumulate ? load<kRegisterLanes>(left) + sums[r][0] : sums[r][0]);
    store<kRegisterLanes>(right, p.accumulate ? load<kRegisterLanes>(right) + sums[r][1] : sums[r][1]);
  }
}

/// Computes a tile of `rows` rows, at most R.
template <int R>
inline void multiply_rest(const SmallProduct& p, int64_t row, int64_t column, int64_t rows) {
  if constexpr (R > 1)
    if (rows < R) return multiply_rest<R - 1>(p, row, column, rows);
  multiply_tile<R>(p, row, column);
}

inline void multiply(const SmallProduct& p) {
  for (int64_t column = 0; column < p.columns; column += kPanel) {
    int64_t row = 0;
    for (; row + kTileRows <= p.rows; row += kTileRows) multiply_tile<kTileRows>(p, row, column);
    if (row < p.rows) multiply_rest<kTileRows - 1>(p, row, column, p.rows - row);
  }
}

}  // namespace
}  // namespace dptrain::ops::DPTRAIN_ISA_NAMESPACE
