#pragma once

#include <cstdint>

#include "ops/tile_positions.h"
#include "tensor/bfloat16.h"

namespace dptrain::ops {

/// How the pixels of images lie in memory, in elements: 16 channels of a pixel side by side, in nchw16c and in nhwc.
struct ImageStrides {
  int64_t channels;
  int64_t image, block, pixel;  ///< from one to the next; a block is 16 channels
};

/// Weights [O, C, KH, KW] in oihw16i16o that are packed as right tiles: 32 channels that a product computes, and all
/// that it adds over.
struct TileWeights {
  const Bfloat16* weights;
  int64_t output_blocks, input_blocks, window;  ///< blocks of 16 channels; KH * KW
  bool exchanged;                               ///< the product computes the weights' input channels from the outputs
  const int64_t* taps;                          ///< weights of the window, in the product's order
  int64_t tap_count;
  int64_t first;  ///< of the blocks that are computed
  Bfloat16* to;
};

/// Outputs of a group of images: y = the sum over taps and channels of source * weight + bias, max(0, y) with `relu`.
struct TileConvolution {
  int64_t positions;
  const Bfloat16* source;     ///< packed: [channels / 32][plane]
  int64_t plane, planes;      ///< elements of a plane, and how many of them
  const int64_t* tap_starts;  ///< elements from `source` to what a tap multiplies at the first position
  int64_t tap_count;
  const Bfloat16* weights;  ///< packed: [output channels / 32][planes][taps]
  const float* bias;        ///< null for none
  bool relu;
  Bfloat16* y;
  ImageStrides y_strides;
  const int64_t* places;  ///< of each position its elements from y, or -1 where it is no output
};

/// Convolutions of bf16 by the machine's unit for it, on the calling thread. Sums are f32, and an element's terms are
/// added in the order of channels' blocks and taps, whatever is computed with it.
struct ConvolutionTileKernels {
  /// Writes the first `length` positions, 32 channels each.
  void (*pack_positions)(const TilePositions& positions, int64_t length, Bfloat16* to);
  void (*pack_weights)(const TileWeights& weights);
  void (*multiply)(const TileConvolution& convolution);
  /// bf16 numbers of one step of a product's depth for 32 outputs, packed.
  int64_t step;
};

/// Null where it has none.
const ConvolutionTileKernels* convolution_tile_kernels();

}  // namespace dptrain::ops
