#pragma once

#include <cstdint>

namespace dptrain::ops {

/// Products of F(4x4, 3x3), see winograd_transforms.h.
constexpr int64_t kWinogradProducts = 36;
/// Squares that the kernels take at once.
constexpr int64_t kMostWinogradSquares = 384;

/// Images in blocks of channels: [images, blocks, height, width, lanes].
struct WinogradImages {
  int64_t blocks, height, width;
};

/// Some of the squares of 4 x 4 outputs, numbered over images, rows and columns of squares.
struct WinogradTiles {
  int64_t rows, columns;  ///< of an image
  int64_t first, count;   ///< 1 to kMostWinogradSquares
};

// What is transformed lies so that the 36 numbers which a transform writes are a few pages apart:
//   squares of a product by weights   [blocks, groups, 36, squares of a group, lanes], with as many squares in a group
//                                     as sums are kept in registers for
//   squares of a product of squares   [blocks, 36, winograd_row(squares), lanes]
//   weights, and their gradients      [output panels, input blocks, 36, lanes of inputs, outputs of the panel, lanes],
//                                     with one vector between the products
// An odd count of vectors between products, as a power of two would put all 36 into one set of a cache.

constexpr int64_t winograd_row(int64_t squares) { return squares | 1; }

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

/// du += the transpose of v * z.
struct WinogradWeightProduct {
  int64_t tiles, inputs, outputs;
  const float* v;
  const float* z;
  float* du;
};

/// The parts of Winograd's convolution of a 3 x 3 window, stride 1, on the calling thread. Every element's terms are
/// added in the order of their channels, or of their tiles: bits don't depend on what else is computed with it.
struct WinogradKernels {
  int64_t lanes;  ///< channels in a block
  int64_t panel;  ///< blocks of outputs that are computed at once
  int64_t rows;   ///< squares of a group
  /// Of the transformed weights of a block of inputs and `outputs` blocks of a panel.
  int64_t (*weight_numbers)(int64_t outputs);
  /// v, of images with `padding` zeros around them; `grouped` for products by weights.
  void (*inputs)(const WinogradImages& x, const float* data, int64_t padding, const WinogradTiles& tiles, bool grouped,
                 float* v);
  void (*weights)(const WinogradWeights& weights, float* u);
  void (*multiply)(const WinogradProduct& product);
  void (*outputs)(const WinogradImages& y, const WinogradTiles& tiles, const WinogradOutputs& outputs);
  /// z, of the gradients of some blocks of outputs. sums: [blocks, lanes], to which those gradients are added, or null.
  void (*output_gradients)(const WinogradImages& y, const float* data, const WinogradTiles& tiles, int64_t first_output,
                           int64_t blocks, float* z, double* sums);
  void (*multiply_weights)(const WinogradWeightProduct& product);
  /// The gradient [3, 3, lanes, lanes] of one block's weights, number `output` of a panel of `outputs`, from the sum of
  /// `parts` arrays, `part_stride` apart. du: of the panel and the block of inputs.
  void (*weight_gradients)(const float* du, int64_t parts, int64_t part_stride, int64_t output, int64_t outputs,
                           bool accumulate, float* gradient);
};

const WinogradKernels& winograd_kernels();

}  // namespace dptrain::ops
