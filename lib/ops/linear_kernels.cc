#include "ops/linear_kernels.h"

#include "ops/bf16_rounding.h"
#include "ops/small_product.h"

// Compiled once for each instruction set, see cmake/DptrainKernels.cmake.

namespace dptrain::ops::DPTRAIN_ISA_NAMESPACE {
namespace {

/// Rows whose part of x stays in the second-level cache while all panels pass by.
constexpr int64_t kBlockRows = 8 * kTileRows;

int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

int64_t panels(int64_t out) { return whole_panels(out) / kPanel; }

int64_t packed_floats(int64_t out, int64_t in) { return whole_panels(out) * in; }

void pack(const float* weight, int64_t outputs, int64_t in, float* panel) {
  pack_columns(weight, in, outputs, in, panel);
}

template <int R>
struct TileRows {
  static constexpr int value = R;
};

/// R rows of a panel: y = x * panel + bias. Not inlined: what is around would take registers from the sums.
template <int R>
[[gnu::noinline]] void multiply_rows(const float* __restrict x, const float* __restrict panel, int64_t depth,
                                     const float* __restrict bias, bool relu, float* __restrict y, int64_t y_row) {
  using Vector = Row<kProductLanes>;
  Vector sums[R][2];
#pragma GCC unroll 12
  for (int r = 0; r < R; ++r) {
    sums[r][0] = load<kProductLanes>(bias);
    sums[r][1] = load<kProductLanes>(bias + kProductLanes);
  }
  for (int64_t k = 0; k < depth; ++k) {
    const Vector left = load<kProductLanes>(panel + k * kPanel),
                 right = load<kProductLanes>(panel + k * kPanel + kProductLanes);
#pragma GCC unroll 12
    for (int r = 0; r < R; ++r) {
      const float value = x[r * depth + k];
      sums[r][0] += value * left;
      sums[r][1] += value * right;
    }
  }
  if (relu) {
#pragma GCC unroll 12
    for (int r = 0; r < R; ++r) {
      sums[r][0] = sums[r][0] > 0 ? sums[r][0] : Vector{};
      sums[r][1] = sums[r][1] > 0 ? sums[r][1] : Vector{};
    }
  }
#pragma GCC unroll 12
  for (int r = 0; r < R; ++r) {
    store<kProductLanes>(y + r * y_row, sums[r][0]);
    store<kProductLanes>(y + r * y_row + kProductLanes, sums[r][1]);
  }
}

/// Writes `columns` of a tile's columns to y, whose first element is `at`.
void copy_tile(const LinearRows& p, const float* __restrict sums, int64_t rows, int64_t columns, int64_t at) {
  for (int64_t r = 0; r < rows; ++r, at += p.out, sums += kPanel) {
    if (p.y != nullptr)
      for (int64_t c = 0; c < columns; ++c) p.y[at + c] = sums[c];
    else
      for (int64_t c = 0; c < columns; ++c) p.rounded[at + c] = rounded(sums[c]);
  }
}

void multiply(const LinearRows& p) {
  float tile_sums[kTileRows * kPanel];
  for (int64_t begin = 0; begin < p.rows; begin += kBlockRows) {
    const int64_t end = smaller(begin + kBlockRows, p.rows);
    for (int64_t column = 0; column < p.out; column += kPanel) {
      const int64_t columns = smaller(kPanel, p.out - column);
      const float* panel = p.packed + column * p.in;
      float bias[kPanel] = {};
      if (p.bias != nullptr)
        for (int64_t c = 0; c < columns; ++c) bias[c] = p.bias[column + c];
      const auto tile = [&](auto rows, int64_t row) {
        const float* x = p.x + row * p.in;
        const int64_t at = row * p.out + column;
        if (columns == kPanel && p.y != nullptr)
          return multiply_rows<rows.value>(x, panel, p.in, bias, p.relu, p.y + at, p.out);
        multiply_rows<rows.value>(x, panel, p.in, bias, p.relu, tile_sums, kPanel);
        copy_tile(p, tile_sums, rows.value, columns, at);
      };
      int64_t row = begin;
      for (; row + kTileRows <= end; row += kTileRows) tile(TileRows<kTileRows>(), row);
      for (; row + 4 <= end; row += 4) tile(TileRows<4>(), row);
      for (; row < end; ++row) tile(TileRows<1>(), row);
    }
  }
}

}  // namespace

extern const LinearKernels kLinear;
const LinearKernels kLinear = {packed_floats, panels, pack, multiply, kTileRows, kBlockRows, kPanel};

}  // namespace dptrain::ops::DPTRAIN_ISA_NAMESPACE
