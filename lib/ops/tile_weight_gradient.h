#pragma once

#include <cstdint>

#include "ops/tile_positions.h"
#include "tensor/bfloat16.h"

namespace dptrain::ops {

/// One step of the computation, for two blocks of 16 input channels at a tap each. `right` is where a tap's input
/// begins, in elements of TileWeightGradient::right. `block` is where its weights are, in elements of `sums`, or -1 for
/// none. If the two inputs are neighbors in memory, they share the loads of their lines.
struct WeightGradientPass {
  int64_t right[2], block[2];
};

/// The gradient of the weights between 32 output channels and some inputs, from packed positions of both: the sums over
/// positions of the output's gradient times the input that a tap reads.
struct TileWeightGradient {
  int64_t steps;          ///< steps of 32 positions
  const Bfloat16* left;   ///< the output's gradient as packed by pack_rows, [steps]
  const Bfloat16* right;  ///< the input as packed by pack_pairs
  const WeightGradientPass* passes;
  int64_t pass_count;
  float* sums;            ///< blocks of weights in oihw16i16o, [16 inputs, 16 outputs] for each weight of the window
  int64_t output_blocks;  ///< blocks of 16 channels that exist, 1 or 2
  int64_t output_stride;  ///< elements from one block to the next
  bool accumulate;        ///< adds to the values of `sums`
};

/// Gradients of the weights of bf16 convolutions by the machine's matrix unit, on the calling thread. The depth of
/// these products is positions. Sums are f32, added in the order of positions.
struct WeightGradientTileKernels {
  // Each of these takes the positions from `begin` to `end`, which are multiples of 32.
  /// Packs rows of positions, two tiles for every 32 positions.
  void (*pack_rows)(const TilePositions& positions, int64_t begin, int64_t end, Bfloat16* to);
  /// Packs pairs of positions, [pairs, 16 channels, 2], and the same for the other 16 channels `half` elements further
  /// on. Pairs that begin at even positions go to the first of `to`, pairs that begin at odd ones to the second.
  void (*pack_pairs)(const TilePositions& positions, int64_t begin, int64_t end, Bfloat16* const to[2], int64_t half);
  /// Adds the positions of each of the 32 channels to sums[32].
  void (*add_positions)(const TilePositions& positions, int64_t begin, int64_t end, double* sums);
  void (*multiply)(const TileWeightGradient& gradient);
};

/// Returns the kernels, or null if the machine has no such unit.
const WeightGradientTileKernels* weight_gradient_tile_kernels();

}  // namespace dptrain::ops
