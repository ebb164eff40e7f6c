#pragma once

#include <cstdint>

#include "tensor/bfloat16.h"

namespace dptrain::ops {

/// Some rows of y = x * w^T + bias, and max(0, y) with `relu`. x: [rows, in]; w: [out, in], packed; y: [rows, out].
struct LinearRows {
  int64_t rows, in, out;
  const float* x;
  const float* packed;
  const float* bias;  ///< [out], or null
  bool relu;
  float* y;           ///< or null, where y is rounded:
  Bfloat16* rounded;  ///< in place of y, or null
};

/// The product of a linear layer, on the calling thread. An element's terms are added in the order of the inputs,
/// whatever rows are computed with it: bits don't depend on how the rows are shared out.
///
/// The weights are packed first, by panels of neighboring outputs; a panel by another call, or by another thread.
struct LinearKernels {
  int64_t (*packed_floats)(int64_t out, int64_t in);
  int64_t (*panels)(int64_t out);
  /// One panel, of the weights of `outputs` outputs: [outputs, in].
  void (*pack)(const float* weight, int64_t outputs, int64_t in, float* panel);
  void (*multiply)(const LinearRows& rows);
  /// What rows are best a multiple of.
  int64_t tile_rows;
  /// Rows whose part of x stays in the second-level cache while all panels pass by.
  int64_t block_rows;
  /// Outputs of a panel.
  int64_t panel_outputs;
};

const LinearKernels& linear_kernels();

}  // namespace dptrain::ops
