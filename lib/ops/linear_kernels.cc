#include "ops/linear_kernels.h"

#include "ops/bf16_rounding.h"
#include "ops/small_product.h"

// Compiled once for each instruction set, see cmake/DptrainKernels.cmake.

namespace dptrain::ops::DPTRAIN_ISA_NAMESPACE {
namespace {

/// Rows whose part of x stays in the second-level cache while all panels pass by.
constexpr int64_t kBlockRows = 8 * kTileRows;

int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

int64_t panels(int64_t columns) { return whole_panels(columns) / kPanel; }

int64_t packed_floats(int64_t columns, int64_t depth) { return whole_panels(columns) * depth; }

void pack(const float* transpose, int64_t columns, int64_t depth, float* panel) {
  pack_columns(transpose, depth, columns, depth, panel);
}

void pack_all_rows(const float* rows, int64_t depth, int64_t columns, float* panels) {
  pack_rows(rows, columns, depth, columns, panels);
}

/// In each tile the numbers of one depth are neighbors: read straight on, where the rows of the transpose would be
/// columns pages apart.
void pack_tiles(const float* x, int64_t stride, int64_t depth, int64_t columns, float* __restrict tiles) {
  for (int64_t tile = 0; tile < columns; tile += kTileRows) {
    const int64_t count = smaller(kTileRows, columns - tile);
    for (int64_t k = 0; k < depth; ++k, tiles += kTileRows)
      for (int64_t r = 0; r < count; ++r) tiles[r] = x[k * stride + tile + r];
  }
}

template <int R>
struct TileRows {
  static constexpr int value = R;
};

/// Where the sums of a tile go.
struct TileTarget {
  const float* bias;
  bool relu, accumulate;
  float* y;
  int64_t stride;
};

/// R rows of a panel. Not inlined: what is around would take registers from the sums.
template <int R, bool Tiled>
[[gnu::noinline]] void multiply_rows(const float* __restrict x, int64_t x_stride, const float* __restrict panel,
                                     int64_t depth, const TileTarget& target) {
  using Vector = Row<kProductLanes>;
  Vector sums[R][2];
#pragma GCC unroll 12
  for (int r = 0; r < R; ++r) {
    sums[r][0] = load<kProductLanes>(target.bias);
    sums[r][1] = load<kProductLanes>(target.bias + kProductLanes);
  }
  for (int64_t k = 0; k < depth; ++k) {
    const Vector left = load<kProductLanes>(panel + k * kPanel),
                 right = load<kProductLanes>(panel + k * kPanel + kProductLanes);
#pragma GCC unroll 12
    for (int r = 0; r < R; ++r) {
      const float value = Tiled ? x[k * kTileRows + r] : x[r * x_stride + k];
      sums[r][0] += value * left;
      sums[r][1] += value * right;
    }
  }
  if (target.relu) {
#pragma GCC unroll 12
    for (int r = 0; r < R; ++r) {
      sums[r][0] = sums[r][0] <= 0 ? Vector{} : sums[r][0];
      sums[r][1] = sums[r][1] <= 0 ? Vector{} : sums[r][1];
    }
  }
#pragma GCC unroll 12
  for (int r = 0; r < R; ++r) {
    float *left = target.y + r * target.stride, *right = left + kProductLanes;
    store<kProductLanes>(left, target.accumulate ? load<kProductLanes>(left) + sums[r][0] : sums[r][0]);
    store<kProductLanes>(right, target.accumulate ? load<kProductLanes>(right) + sums[r][1] : sums[r][1]);
  }
}

/// Writes `columns` of a tile's columns to y, whose first element is `at`.
void copy_tile(const LinearRows& p, const float* __restrict sums, int64_t rows, int64_t columns, int64_t at) {
  for (int64_t r = 0; r < rows; ++r, at += p.columns, sums += kPanel) {
    if (p.accumulate)
      for (int64_t c = 0; c < columns; ++c) p.y[at + c] += sums[c];
    else if (p.y != nullptr)
      for (int64_t c = 0; c < columns; ++c) p.y[at + c] = sums[c];
    else
      for (int64_t c = 0; c < columns; ++c) p.rounded[at + c] = rounded(sums[c]);
  }
}

template <bool Tiled>
void multiply_as(const LinearRows& p) {
  float tile_sums[kTileRows * kPanel];
  for (int64_t begin = 0; begin < p.rows; begin += kBlockRows) {
    const int64_t end = smaller(begin + kBlockRows, p.rows);
    for (int64_t column = 0; column < p.columns; column += kPanel) {
      const int64_t columns = smaller(kPanel, p.columns - column);
      const float* panel = p.panels + column * p.depth;
      float bias[kPanel] = {};
      if (p.bias != nullptr)
        for (int64_t c = 0; c < columns; ++c) bias[c] = p.bias[column + c];
      const bool in_place = columns == kPanel && p.y != nullptr;
      const auto multiply_tile = [&](auto rows, int64_t row) {
        const float* x = p.x + (Tiled ? row / kTileRows * kTileRows * p.depth + row % kTileRows : row * p.x_stride);
        const int64_t at = row * p.columns + column;
        const TileTarget target = {.bias = bias,
                                   .relu = p.relu,
                                   .accumulate = in_place && p.accumulate,
                                   .y = in_place ? p.y + at : tile_sums,
                                   .stride = in_place ? p.columns : kPanel};
        multiply_rows<rows.value, Tiled>(x, p.x_stride, panel, p.depth, target);
        if (!in_place) copy_tile(p, tile_sums, rows.value, columns, at);
      };
      int64_t row = begin;
      for (; row + kTileRows <= end; row += kTileRows) multiply_tile(TileRows<kTileRows>(), row);
      for (; row + 4 <= end; row += 4) multiply_tile(TileRows<4>(), row);
      for (; row < end; ++row) multiply_tile(TileRows<1>(), row);
    }
  }
}

void multiply(const LinearRows& p) { p.x_stride == 0 ? multiply_as<true>(p) : multiply_as<false>(p); }

void add_column_sums(const float* x, int64_t rows, int64_t stride, int64_t columns, double* __restrict sums) {
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t c = 0; c < columns; ++c) sums[c] += x[row * stride + c];
}

}  // namespace

extern const LinearKernels kLinear;
const LinearKernels kLinear = {.packed_floats = packed_floats,
                               .panels = panels,
                               .pack = pack,
                               .pack_rows = pack_all_rows,
                               .pack_tiles = pack_tiles,
                               .multiply = multiply,
                               .add_column_sums = add_column_sums,
                               .tile_rows = kTileRows,
                               .block_rows = kBlockRows,
                               .panel_columns = kPanel};

}  // namespace dptrain::ops::DPTRAIN_ISA_NAMESPACE
