#pragma once

#include <cstdint>

#include "tensor/bfloat16.h"

namespace dptrain::ops {

/// A long row of convolution_grid.h, 32 channels of it, and where its pixels lie: a phase of some images. Every other
/// position is zeros.
struct TilePositions {
  const Bfloat16* pixels;  ///< the first image's first of the phase, from the first of the 32 channels on
  int64_t images, image;   ///< how many, and elements from one to the next
  int64_t height, width;   ///< pixels of an image
  int64_t down, along;     ///< elements between them
  int64_t channels;        ///< of the 32 those that there are
  int64_t block;           ///< elements from 16 channels to the next 16
  int64_t rows, columns;   ///< positions that an image takes
  int64_t lead;            ///< positions before the first image
};

}  // namespace dptrain::ops
