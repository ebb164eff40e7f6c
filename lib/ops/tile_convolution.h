#pragma once

#include <cstdint>

#include "ops/tile_positions.h"
#include "tensor/bfloat16.h"

namespace dptrain::ops {

/// Strides of images in memory, in elements. 16 channels of a pixel are contiguous, in nchw16c and in nhwc.
struct ImageStrides {
  int64_t channels;
  int64_t image, block, pixel;  ///< distance to the next one; a block is 16 channels
};

/// Weights [O, C, KH, KW] in oihw16i16o, to be packed as right tiles: for 32 channels that a product computes, all the
/// channels that it sums over.
struct TileWeights {
  const Bfloat16* weights;
  int64_t output_blocks, input_blocks, window;  ///< blocks of 16 channels; KH * KW
  bool exchanged;                               ///< the product computes input channels from output channels
  const int64_t* taps;                          ///< weights of the window, in the product's order
  int64_t tap_count;
  int64_t first;  ///< first block that is computed
  Bfloat16* to;
};

/// The outputs of a group of images: y = the sum over taps and channels of source * weight + bias; max(0, y) with
/// `relu`.
struct TileConvolution {
  int64_t positions;
  const Bfloat16* source;     ///< packed: [channels / 32][plane]
  int64_t plane, planes;      ///< elements of a plane, and number of planes
  const int64_t* tap_starts;  ///< offset from `source`, in elements, of what each tap multiplies at the first position
  int64_t tap_count;
  const Bfloat16* weights;  ///< packed: [output channels / 32][planes][taps]
  const float* bias;        ///< null: no bias
  bool relu;
  Bfloat16* y;
  ImageStrides y_strides;
  const int64_t* places;  ///< for each position its offset from y in elements, or -1 if it is no output
};

/// Convolutions of bf16 by the machine's matrix unit for it, on the calling thread. Sums are f32. An element's terms
/// are added in the order of blocks of channels and taps, whatever is computed with it.
struct ConvolutionTileKernels {
  /// Packs the first `length` positions, 32 channels each.
  void (*pack_positions)(const TilePositions& positions, int64_t length, Bfloat16* to);
  void (*pack_weights)(const TileWeights& weights);
  void (*multiply)(const TileConvolution& convolution);
  /// bf16 numbers in one step of a product's depth for 32 outputs, packed.
  int64_t step;
};

/// Returns the kernels, or null if the machine has no such unit.
const ConvolutionTileKernels* convolution_tile_kernels();

}  // namespace dptrain::ops
