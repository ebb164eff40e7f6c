#pragma once

#include <cstdint>

#include "tensor/bfloat16.h"

namespace dptrain::ops {

/// The gradient of the weights between 32 input and 32 output channels, from packed positions of both: the sums over
/// positions of what a tap reads times the output's gradient.
struct TileWeightGradient {
  int64_t steps;          ///< of 32 positions
  const Bfloat16* left;   ///< [32 input channels][row_length], a position after the other
  const Bfloat16* right;  ///< [steps] of what pack_pairs writes
  int64_t row_length;
  const int64_t* tap_starts;  ///< elements from `left` to what a tap reads at the first position
  const int64_t* taps;        ///< weights of the window
  int64_t tap_count;
  bool accumulate;
  float* sums;  ///< the blocks of weights in oihw16i16o, [16 inputs, 16 outputs] for each weight of the window
  int64_t input_stride, output_stride;  ///< elements from a block of 16 channels to the next; 0 where there is none
};

/// Gradients of the weights of convolutions of bf16 by AMX, on the calling thread. The depth of these products is
/// positions; sums are f32, in the order of positions.
struct WeightGradientTileKernels {
  /// From 32 positions of 32 channels: rows of positions, a channel after the other, for the left.
  void (*pack_rows)(const Bfloat16* positions, Bfloat16* to, int64_t row_length);
  /// The same for the right: pairs of positions.
  void (*pack_pairs)(const Bfloat16* positions, Bfloat16* to);
  void (*multiply)(const TileWeightGradient& gradient);
  /// sums[32] += positions of 32 channels.
  void (*add_positions)(const Bfloat16* positions, int64_t count, double* sums);
};

/// Null where the machine has no AMX, or may not use it.
const WeightGradientTileKernels* weight_gradient_tile_kernels();

}  // namespace dptrain::ops
