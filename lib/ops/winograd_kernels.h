#pragma once

#include <cstdint>

#include "ops/winograd_sizes.h"

namespace dptrain::ops {

/// Most tiles that the kernels take at once.
constexpr int64_t kMostWinogradTiles = 384;

/// Numbers of images, f32 or bf16. bf16 is widened when it is read and rounded when it is written.
struct WinogradNumbers {
  void* at;
  bool is_bf16;
};

/// Images in blocks of channels: [images, blocks, height, width, lanes].
struct WinogradImages {
  int64_t blocks, height, width;
};

/// Some tiles of 4 x 4 outputs each, numbered over images, then rows of tiles, then columns of tiles.
struct WinogradTiles {
  int64_t rows, columns;  ///< of tiles in an image
  int64_t first, count;   ///< 1 to kMostWinogradTiles
};

// Transformed numbers are stored so that the 36 numbers that a transform writes are only a few pages apart:
//   tiles for products with weights   [blocks, runs, 36, tiles of a run, lanes]; a run has as many tiles as there are
//                                     sums in registers
//   tiles for products with tiles     [blocks, 36, winograd_row(tiles), lanes]
//   weights, and their gradients      [output panels, input blocks, 36, lanes of inputs, outputs of the panel, lanes],
//                                     with one vector between the products
// The number of vectors between products is odd: a power of two would put all 36 into one set of a cache.

constexpr int64_t winograd_row(int64_t tiles) { return tiles | 1; }

/// The source and destination of some tiles' inputs.
struct WinogradInputs {
  WinogradNumbers x;
  int64_t padding;  ///< zeros around the images
  bool in_runs;     ///< stored for products with weights, else for products with tiles
  float* v;
};

/// Weights in blocks, [output blocks, input blocks, 3, 3, lanes of inputs, lanes of outputs].
struct WinogradWeights {
  const float* weights;
  int64_t output_blocks, input_blocks;
  /// For the gradient of the inputs: the weights are turned by 180 degrees, and inputs and outputs swap their roles in
  /// the numbers below.
  bool turned = false;
  int64_t first_output = 0, outputs = 0;  ///< the blocks to transform, of one panel
  int64_t first_input = 0, inputs = 0;
};

/// m = v * u, or m += v * u, for one panel of outputs.
struct WinogradProduct {
  int64_t tiles, inputs, outputs;  ///< `inputs` and `outputs` are blocks; outputs: 1 to `panel`
  const float* v;                  ///< of these inputs
  const float* u;
  float* m;
  bool accumulate;
};

/// The source and destination of some tiles' outputs.
struct WinogradOutputs {
  const float* m;
  int64_t first_output, outputs;
  const float* bias;  ///< [channels], or null
  int64_t channels;   ///< of y; lanes past them are zero
  bool relu;
  WinogradNumbers y;
};

/// The source and destination of the gradients of some tiles' outputs.
struct WinogradOutputGradients {
  WinogradNumbers dy;
  int64_t first_output, outputs;  ///< blocks
  float* z;
  double* sums;  ///< [outputs, lanes]: the gradients are added to them; or null
};

/// du += the transpose of v * z.
struct WinogradWeightProduct {
  int64_t tiles, inputs, outputs;
  const float* v;
  const float* z;
  float* du;
};

/// The gradient of one block's weights, from sums over several parts.
struct WinogradWeightGradient {
  const float* du;             ///< sums of a panel of outputs and the block of inputs
  int64_t parts, part_stride;  ///< number of arrays to add up, and the distance between them
  int64_t output, outputs;     ///< index of the block in its panel of `outputs` blocks
  bool accumulate;
  float* gradient;  ///< [3, 3, lanes, lanes]
};

/// The steps of Winograd's convolution of a 3 x 3 window with stride 1, on the calling thread. Each element's terms are
/// added in the order of their channels, or of their tiles. Bits don't depend on what else is computed at the same
/// time.
struct WinogradKernels {
  int64_t lanes;  ///< channels in a block
  int64_t panel;  ///< blocks of outputs that are computed at once
  int64_t run;    ///< the most tiles of a run
  /// Returns the numbers of the transformed weights of one block of inputs and `outputs` blocks of a panel.
  int64_t (*weight_numbers)(int64_t outputs);
  void (*inputs)(const WinogradImages& x, const WinogradTiles& tiles, const WinogradInputs& inputs);
  void (*weights)(const WinogradWeights& weights, float* u);
  void (*multiply_by_weights)(const WinogradProduct& product);
  void (*outputs)(const WinogradImages& y, const WinogradTiles& tiles, const WinogradOutputs& outputs);
  void (*output_gradients)(const WinogradImages& y, const WinogradTiles& tiles,
                           const WinogradOutputGradients& gradients);
  void (*multiply_by_tiles)(const WinogradWeightProduct& product);
  void (*weight_gradient)(const WinogradWeightGradient& gradient);
};

/// Returns the kernels; there are none without AVX2.
const WinogradKernels& winograd_kernels();

}  // namespace dptrain::ops
