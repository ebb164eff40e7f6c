#pragma once

#include <cstdint>

#include "tensor/bfloat16.h"

namespace dptrain::ops {

/// 32 channels of a long row (convolution_grid.h), and where its pixels are: one phase of some images. Positions
/// without a pixel are zero.
struct TilePositions {
  const Bfloat16* pixels;  ///< the phase's first pixel in the first image, at the first of the 32 channels
  int64_t images, image;   ///< number of images, and elements from one to the next
  int64_t height, width;   ///< pixels of the phase in an image
  int64_t down, along;     ///< elements from one pixel to the next
  int64_t channels;        ///< channels that exist, from the first of the 32 on
  int64_t block;           ///< elements from one block of 16 channels to the next
  int64_t rows, columns;   ///< positions that an image takes
  int64_t lead;            ///< positions before the first image
};

}  // namespace dptrain::ops
