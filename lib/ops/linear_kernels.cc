#include "ops/linear_kernels.h"

#include "ops/small_product.h"

// Compiled once for each instruction set, see cmake/DptrainKernels.cmake.

namespace dptrain::ops::DPTRAIN_ISA_NAMESPACE {
namespace {

int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

void pack(const float* rows, int64_t stride, int64_t depth, int64_t columns, float* panel) {
  pack_rows(rows, stride, depth, columns, panel);
}

void pack_transpose(const float* rows, int64_t stride, int64_t depth, int64_t columns, float* panel) {
  pack_columns(rows, stride, columns, depth, panel);
}

/// Packs T adjacent tiles; the last one has `count` columns.
template <int64_t T>
void pack_neighbors(const float* x, int64_t stride, int64_t depth, int64_t count, float* __restrict tiles) {
  for (int64_t k = 0; k < depth; ++k) {
    const float* from = x + k * stride;
    for (int64_t t = 0; t < T; ++t) {
      float* to = tiles + (t * depth + k) * kTileRows;
      if (t < T - 1 || count == kTileRows)
        __builtin_memcpy(to, from + t * kTileRows, kTileRows * sizeof(float));
      else
        for (int64_t r = 0; r < count; ++r) to[r] = from[t * kTileRows + r];
    }
  }
}

/// Numbers of one depth are neighbors in a tile, so they are read sequentially. Rows of the transpose itself would be
/// columns of x, whose numbers may be pages apart. Packs four tiles at a time, whose rows are whole cache lines of x.
void pack_tiles(const float* x, int64_t stride, int64_t depth, int64_t columns, float* __restrict tiles) {
  constexpr int64_t kTiles = 4;
  int64_t column = 0;
  for (; column + kTiles * kTileRows <= columns; column += kTiles * kTileRows)
    pack_neighbors<kTiles>(x + column, stride, depth, kTileRows, tiles + column * depth);
  for (; column < columns; column += kTileRows)
    pack_neighbors<1>(x + column, stride, depth, smaller(kTileRows, columns - column), tiles + column * depth);
}

/// Multiplies R rows by a panel. Not inlined, because surrounding code would take registers from the sums.
template <int R, bool Tiled>
[[gnu::noinline]] void multiply_rows(const LinearRows& p, const float* __restrict x, const float* start,
                                     int64_t start_stride, float* y, int64_t y_stride) {
  using Vector = Row<kRegisterLanes>;
  Vector sums[R][2];
#pragma GCC unroll 12
  for (int r = 0; r < R; ++r) {
    sums[r][0] = load<kRegisterLanes>(start + r * start_stride);
    sums[r][1] = load<kRegisterLanes>(start + r * start_stride + kRegisterLanes);
  }
  const float* __restrict panel = p.panel;
  const int64_t depth = p.depth, x_stride = p.x_stride;
  for (int64_t k = 0; k < depth; ++k) {
    const Vector left = load<kRegisterLanes>(panel + k * kPanel),
                 right = load<kRegisterLanes>(panel + k * kPanel + kRegisterLanes);
#pragma GCC unroll 12
    for (int r = 0; r < R; ++r) {
      const float value = Tiled ? x[k * kTileRows + r] : x[r * x_stride + k];
      sums[r][0] += value * left;
      sums[r][1] += value * right;
    }
  }
  if (p.relu) {
#pragma GCC unroll 12
    for (int r = 0; r < R; ++r) {
      sums[r][0] = sums[r][0] <= 0 ? Vector{} : sums[r][0];
      sums[r][1] = sums[r][1] <= 0 ? Vector{} : sums[r][1];
    }
  }
#pragma GCC unroll 12
  for (int r = 0; r < R; ++r) {
    float *left = y + r * y_stride, *right = left + kRegisterLanes;
    store<kRegisterLanes>(left, p.accumulate ? load<kRegisterLanes>(left) + sums[r][0] : sums[r][0]);
    store<kRegisterLanes>(right, p.accumulate ? load<kRegisterLanes>(right) + sums[r][1] : sums[r][1]);
  }
}

using MultiplyRows = void (*)(const LinearRows& p, const float* x, const float* start, int64_t start_stride, float* y,
                              int64_t y_stride);

/// Returns multiply_rows for `count` rows, one to kTileRows.
template <bool Tiled, int R = kTileRows>
MultiplyRows multiply_of(int64_t count) {
  if constexpr (R > 1)
    if (count < R) return multiply_of<Tiled, R - 1>(count);
  return multiply_rows<R, Tiled>;
}

/// Copies the columns of a tile that is narrower than its panel.
void copy_tile(const float* from, int64_t from_stride, int64_t rows, int64_t columns, float* to, int64_t to_stride) {
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < columns; ++c) to[r * to_stride + c] = from[r * from_stride + c];
}

template <bool Tiled>
void multiply_as(const LinearRows& p) {
  float narrow[kTileRows * kPanel] = {}, bias[kPanel] = {};
  if (p.bias != nullptr) copy_tile(p.bias, 0, 1, p.columns, bias, 0);
  const bool whole = p.columns == kPanel;
  for (int64_t row = 0; row < p.rows; row += kTileRows) {
    const int64_t rows = smaller(kTileRows, p.rows - row);
    float* y = p.y + row * p.y_stride;
    float* to = whole ? y : narrow;
    const int64_t stride = whole ? p.y_stride : kPanel;
    if (!whole && (p.goes_on || p.accumulate)) copy_tile(y, p.y_stride, rows, p.columns, narrow, kPanel);
    multiply_of<Tiled>(rows)(p, p.x + row * (Tiled ? p.depth : p.x_stride), p.goes_on ? to : bias,
                             p.goes_on ? stride : 0, to, stride);
    if (!whole) copy_tile(narrow, kPanel, rows, p.columns, y, p.y_stride);
  }
}

void multiply(const LinearRows& p) { p.x_stride == 0 ? multiply_as<true>(p) : multiply_as<false>(p); }

void add_column_sums(const float* x, int64_t rows, int64_t stride, int64_t columns, double* __restrict sums) {
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t c = 0; c < columns; ++c) sums[c] += x[row * stride + c];
}

}  // namespace

extern const LinearKernels kLinear;
const LinearKernels kLinear = {.pack = pack,
                               .pack_transpose = pack_transpose,
                               .pack_tiles = pack_tiles,
                               .multiply = multiply,
                               .add_column_sums = add_column_sums,
                               .tile_rows = kTileRows,
                               .panel_columns = kPanel};

}  // namespace dptrain::ops::DPTRAIN_ISA_NAMESPACE
