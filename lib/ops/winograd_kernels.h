#pragma once

#include <cstdint>

#include "ops/winograd_sizes.h"

namespace dptrain::ops {

/// Tiles that the kernels take at once.
constexpr int64_t kMostWinogradTiles = 384;

/// Images in blocks of channels: [images, blocks, height, width, lanes].
struct WinogradImages {
  int64_t blocks, height, width;
};

/// Some tiles, each of 4 x 4 outputs, numbered over images, rows and columns of tiles.
struct WinogradTiles {
  int64_t rows, columns;  ///< of an image
  int64_t first, count;   ///< 1 to kMostWinogradTiles
};

// What is transformed lies so that the 36 numbers which a transform writes are a few pages apart:
//   tiles of a product by weights   [blocks, runs, 36, tiles of a run, lanes], a run being as many tiles as sums are
//                                   kept in registers for
//   tiles of a product of tiles     [blocks, 36, winograd_row(tiles), lanes]
//   weights, and their gradients    [output panels, input blocks, 36, lanes of inputs, outputs of the panel, lanes],
//                                   with one vector between the products
// An odd count of vectors between products, as a power of two would put all 36 into one set of a cache.

constexpr int64_t winograd_row(int64_t tiles) { return tiles | 1; }

/// Where the inputs of some tiles come from and go to.
struct WinogradInputs {
  const float* x;
  int64_t padding;  ///< zeros around the images
  bool in_runs;     ///< for products by weights; else for those of tiles
  float* v;
};

/// Weights in blocks, [output blocks, input blocks, 3, 3, lanes of inputs, lanes of outputs].
struct WinogradWeights {
  const float* weights;
  int64_t output_blocks, input_blocks;
  /// For the gradient of the inputs: by outputs, turned by 180 degrees, and outputs and inputs change places below.
  bool turned = false;
  int64_t first_output = 0, outputs = 0;  ///< the blocks to transform, of one panel
  int64_t first_input = 0, inputs = 0;
};

/// m (+)= v * u, for one panel of outputs.
struct WinogradProduct {
  int64_t tiles, inputs, outputs;  ///< blocks of inputs; blocks of outputs: 1 to `panel`
  const float* v;                  ///< of these inputs
  const float* u;
  float* m;
  bool accumulate;
};

/// Where the outputs of some tiles go.
struct WinogradOutputs {
  const float* m;
  int64_t first_output, outputs;
  const float* bias;  ///< of `channels`, or null
  int64_t channels;   ///< of y; lanes past them are zero
  bool relu;
  float* y;
};

/// Where the gradients of some tiles' outputs come from and go to.
struct WinogradOutputGradients {
  const float* dy;
  int64_t first_output, outputs;  ///< blocks
  float* z;
  double* sums;  ///< [outputs, lanes], to which those gradients are added, or null
};

/// du += the transpose of v * z.
struct WinogradWeightProduct {
  int64_t tiles, inputs, outputs;
  const float* v;
  const float* z;
  float* du;
};

/// The gradient of one block's weights, from what is summed in parts.
struct WinogradWeightGradient {
  const float* du;             ///< of a panel of outputs and the block of inputs
  int64_t parts, part_stride;  ///< arrays that are added up, and how far apart they lie
  int64_t output, outputs;     ///< the number of the block in a panel of so many
  bool accumulate;
  float* gradient;  ///< [3, 3, lanes, lanes]
};

/// The parts of Winograd's convolution of a 3 x 3 window, stride 1, on the calling thread. Every element's terms are
/// added in the order of their channels, or of their tiles: bits don't depend on what else is computed with it.
struct WinogradKernels {
  int64_t lanes;  ///< channels in a block
  int64_t panel;  ///< blocks of outputs that are computed at once
  int64_t run;    ///< the most tiles of a run
  /// Of the transformed weights of a block of inputs and `outputs` blocks of a panel.
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

/// There are none without AVX2.
const WinogradKernels& winograd_kernels();

}  // namespace dptrain::ops
