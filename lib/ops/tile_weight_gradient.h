#pragma once

#include <cstdint>

#include "ops/tile_positions.h"
#include "tensor/bfloat16.h"

namespace dptrain::ops {

/// What is computed at once: for two blocks of 16 input channels at a tap, where what it reads begins, in elements of
/// `right`, and where its weights lie, in elements of `sums`, or -1 for none. Neighbors in memory share the loads of
/// their lines.
struct WeightGradientPass {
  int64_t right[2], block[2];
};

/// The gradient of the weights between 32 output channels and some inputs, from packed positions of both: the sums over
/// positions of the output's gradient times what a tap reads.
struct TileWeightGradient {
  int64_t steps;          ///< of 32 positions
  const Bfloat16* left;   ///< [steps] of what pack_rows writes of the output's gradient
  const Bfloat16* right;  ///< what pack_pairs writes of the input
  const WeightGradientPass* passes;
  int64_t pass_count;
  float* sums;            ///< blocks of weights in oihw16i16o, [16 inputs, 16 outputs] for each weight of the window
  int64_t output_blocks;  ///< of 16 channels that there are, 1 or 2
  int64_t output_stride;  ///< elements from one to the next
  bool accumulate;        ///< adds to what is there
};

/// Gradients of the weights of convolutions of bf16 by the machine's unit for it, on the calling thread. The depth of
/// these products is positions; sums are f32, in the order of positions.
struct WeightGradientTileKernels {
  // Positions from `begin` to `end`, which are multiples of 32:
  /// Rows of positions, two tiles for every 32 of them.
  void (*pack_rows)(const TilePositions& positions, int64_t begin, int64_t end, Bfloat16* to);
  /// Pairs of positions, [pairs, 16 channels, 2], and as much for the other 16 channels `half` elements on: to the
  /// first of `to` the pairs that begin at even positions, to the second those at odd ones.
  void (*pack_pairs)(const TilePositions& positions, int64_t begin, int64_t end, Bfloat16* const to[2], int64_t half);
  /// sums[32] += those of the channels.
  void (*add_positions)(const TilePositions& positions, int64_t begin, int64_t end, double* sums);
  void (*multiply)(const TileWeightGradient& gradient);
};

/// Null where it has none.
const WeightGradientTileKernels* weight_gradient_tile_kernels();

}  // namespace dptrain::ops
