#pragma once

#include <cstdint>

#include "tensor/bfloat16.h"

namespace dptrain::ops {

/// How the pixels of images lie in memory, in elements: 16 channels of a pixel side by side, in nchw16c and in nhwc.
struct ImageStrides {
  int64_t channels;
  int64_t image, block, pixel;  ///< from one to the next; a block is 16 channels
};

/// A phase of an image's pixels that is packed: pixels [height, width], `down` and `along` elements apart.
struct TilePixels {
  const Bfloat16* pixels;  ///< the first of them
  int64_t height, width, down, along;
  int64_t block, channels;  ///< as of ImageStrides
  Bfloat16* to;             ///< the position of the first
  int64_t columns;          ///< positions from a row to the next
  int64_t plane;            ///< elements from 32 channels to the next 32
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
  /// Writes every channel's pixels to their positions, zeros for channels that fill up the last 32.
  void (*pack_pixels)(const TilePixels& pixels);
  void (*pack_weights)(const TileWeights& weights);
  void (*multiply)(const TileConvolution& convolution);
  /// bf16 numbers of one step of a product's depth for 32 outputs, packed.
  int64_t step;
};

/// Null where it has none.
const ConvolutionTileKernels* convolution_tile_kernels();

}  // namespace dptrain::ops
