#pragma once

#include <cstdint>

namespace dptrain::ops {

/// Some rows of a product, in the columns of one panel: y = x * panel, or more with what follows.
struct LinearRows {
  int64_t rows, depth;
  int64_t columns;   ///< panel_columns, or what is left of them
  const float* x;    ///< rows, `x_stride` apart
  int64_t x_stride;  ///< 0 where x lies in tiles, as `pack_tiles` leaves them
  const float* panel;
  const float* bias = nullptr;  ///< what the sums begin with; null: zero
  bool goes_on = false;         ///< they begin with what stands in y, in place of `bias`
  bool accumulate = false;      ///< they are added to what stands in y
  bool relu = false;            ///< max(0, .) of what is written; not with `accumulate`
  float* y;                     ///< rows, `y_stride` apart
  int64_t y_stride;
};

/// The products of a linear layer, on the calling thread. An element's terms are added in the order of the depth,
/// whatever rows and columns are computed with it: bits don't depend on how they are shared out.
///
/// The right matrix is packed first, a panel of neighboring columns at a time.
struct LinearKernels {
  /// A panel of a [depth, columns] matrix with rows `stride` apart, of at most panel_columns.
  void (*pack)(const float* rows, int64_t stride, int64_t depth, int64_t columns, float* panel);
  /// The same of the matrix's transpose, [columns, depth].
  void (*pack_transpose)(const float* rows, int64_t stride, int64_t depth, int64_t columns, float* panel);
  /// The transpose of some columns of a matrix with rows `stride` apart, [depth, columns], in tiles of `tile_rows`
  /// rows.
  void (*pack_tiles)(const float* x, int64_t stride, int64_t depth, int64_t columns, float* tiles);
  void (*multiply)(const LinearRows& rows);
  /// sums[c] += the sum of x(r, c) over the rows, which are `stride` apart.
  void (*add_column_sums)(const float* x, int64_t rows, int64_t stride, int64_t columns, double* sums);
  /// What rows are best a multiple of.
  int64_t tile_rows;
  /// Columns of a panel.
  int64_t panel_columns;
};

const LinearKernels& linear_kernels();

}  // namespace dptrain::ops
