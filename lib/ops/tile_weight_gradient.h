#pragma once

#include <cstdint>

#include "tensor/bfloat16.h"

namespace dptrain::ops {

/// The gradient of the weights between 32 output and 32 input channels, from packed positions of both: the sums over
/// positions of the output's gradient times what a tap reads.
struct TileWeightGradient {
  int64_t steps;              ///< of 32 positions
  const Bfloat16* left;       ///< [steps] of what pack_rows writes of the output's gradient
  const Bfloat16* right;      ///< what pack_pairs writes of the input
  int64_t right_half;         ///< elements between 16 channels and the next 16 of the input
  const int64_t* tap_starts;  ///< elements from `right` to what a tap reads at the first position
  const int64_t* taps;        ///< weights of the window
  int64_t tap_count;
  float* sums;  ///< blocks of weights in oihw16i16o, [16 inputs, 16 outputs] for each weight of the window
  int64_t input_blocks, output_blocks;  ///< of 16 channels that there are, 1 or 2
  int64_t input_stride, output_stride;  ///< elements from one to the next
  bool accumulate;                      ///< adds to what is there
};

/// Gradients of the weights of convolutions of bf16 by AMX, on the calling thread. The depth of these products is
/// positions; sums are f32, in the order of positions.
struct WeightGradientTileKernels {
  /// From 32 positions of 32 channels: rows of positions, two tiles.
  void (*pack_rows)(const Bfloat16* positions, Bfloat16* to);
  /// From 32 positions of 32 channels: pairs of positions, [16 pairs, 16 channels, 2], and as much for the other 16
  /// channels `half` elements on.
  void (*pack_pairs)(const Bfloat16* positions, Bfloat16* to, int64_t half);
  void (*multiply)(const TileWeightGradient& gradient);
  /// sums[32] += positions of 32 channels.
  void (*add_positions)(const Bfloat16* positions, int64_t count, double* sums);
};

/// Null where the machine has no AMX, or may not use it.
const WeightGradientTileKernels* weight_gradient_tile_kernels();

}  // namespace dptrain::ops
