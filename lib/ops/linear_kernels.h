#pragma once

#include <cstdint>

#include "tensor/bfloat16.h"

namespace dptrain::ops {

/// Some rows of y = x * panels + bias, and max(0, y) with `relu`, or of y += x * panels with `accumulate`.
struct LinearRows {
  int64_t rows, depth, columns;
  const float* x;       ///< rows, `x_stride` apart
  int64_t x_stride;     ///< 0 where x lies in tiles, as `pack_tiles` leaves them
  const float* panels;  ///< of a [depth, columns] matrix
  const float* bias = nullptr;
  bool relu = false;
  bool accumulate = false;
  float* y = nullptr;           ///< [rows, columns], or null, where y is rounded:
  Bfloat16* rounded = nullptr;  ///< in place of y; not with `accumulate`
};

/// The products of a linear layer, on the calling thread. An element's terms are added in the order of the depth,
/// whatever rows are computed with it: bits don't depend on how the rows are shared out.
///
/// The right matrix is packed first, by panels of neighboring columns; a panel by another call, or by another thread.
struct LinearKernels {
  /// Floats of the panels of a [depth, columns] matrix.
  int64_t (*packed_floats)(int64_t columns, int64_t depth);
  int64_t (*panels)(int64_t columns);
  /// One panel, of `columns` rows of the matrix's transpose, [columns, depth]: of weights.
  void (*pack)(const float* transpose, int64_t columns, int64_t depth, float* panel);
  /// All panels of some rows, [depth, columns]: of weights or inputs where gradients are computed.
  void (*pack_rows)(const float* rows, int64_t depth, int64_t columns, float* panels);
  /// The transpose of some columns of a matrix with rows `stride` apart, [depth, columns], in tiles of `tile_rows`
  /// rows.
  void (*pack_tiles)(const float* x, int64_t stride, int64_t depth, int64_t columns, float* tiles);
  void (*multiply)(const LinearRows& rows);
  /// sums[c] += the sum of x(r, c) over the rows, which are `stride` apart.
  void (*add_column_sums)(const float* x, int64_t rows, int64_t stride, int64_t columns, double* sums);
  /// What rows are best a multiple of.
  int64_t tile_rows;
  /// Rows whose part of x stays in the second-level cache while all panels pass by.
  int64_t block_rows;
  /// Columns of a panel.
  int64_t panel_columns;
};

const LinearKernels& linear_kernels();

}  // namespace dptrain::ops
