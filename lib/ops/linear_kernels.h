#pragma once

#include <cstdint>

namespace dptrain::ops {

/// Some rows of a product, in the columns of one panel: y = x * panel, with the options below.
struct LinearRows {
  int64_t rows, depth;
  int64_t columns;   ///< at most panel_columns
  const float* x;    ///< rows, `x_stride` apart
  int64_t x_stride;  ///< 0 if x is in tiles, as `pack_tiles` writes them
  const float* panel;
  const float* bias = nullptr;  ///< start values of the sums; null: zero
  bool goes_on = false;         ///< the sums start with the values of y instead of `bias`
  bool accumulate = false;      ///< the sums are added to the values of y
  bool relu = false;            ///< writes max(0, .); not with `accumulate`
  float* y;                     ///< rows, `y_stride` apart
  int64_t y_stride;
};

/// The products of a linear layer, on the calling thread. An element's terms are added in the order of the depth,
/// whatever rows and columns are computed with it. Bits therefore don't depend on how a product is divided among
/// threads.
///
/// The right matrix is packed first, one panel of neighboring columns at a time.
struct LinearKernels {
  /// Packs a panel of a [depth, columns] matrix with rows `stride` apart; at most panel_columns columns.
  void (*pack)(const float* rows, int64_t stride, int64_t depth, int64_t columns, float* panel);
  /// Packs a panel of the transpose of a [columns, depth] matrix.
  void (*pack_transpose)(const float* rows, int64_t stride, int64_t depth, int64_t columns, float* panel);
  /// Packs the transpose of some columns of a [depth, columns] matrix with rows `stride` apart, in tiles of `tile_rows`
  /// rows.
  void (*pack_tiles)(const float* x, int64_t stride, int64_t depth, int64_t columns, float* tiles);
  void (*multiply)(const LinearRows& rows);
  /// sums[c] += the sum of x(r, c) over the rows, which are `stride` apart.
  void (*add_column_sums)(const float* x, int64_t rows, int64_t stride, int64_t columns, double* sums);
  /// The number of rows should be a multiple of this.
  int64_t tile_rows;
  /// Columns of a panel.
  int64_t panel_columns;
};

const LinearKernels& linear_kernels();

}  // namespace dptrain::ops
