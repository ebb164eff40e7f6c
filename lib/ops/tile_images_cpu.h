#pragma once

#include "ops/convolution_grid.h"
#include "ops/tile_convolution.h"

namespace dptrain::ops::cpu {

/// Returns the strides of images in nhwc or nchw16c.
ImageStrides image_strides(const Tensor& images);

/// The long rows of a tensor's images (convolution_grid.h), one for each 32 channels and phase. Grid and images must
/// outlive this object.
class TileRows {
 public:
  /// `images`: bf16, in nhwc or nchw16c.
  TileRows(const ConvolutionGrid& grid, const Tensor& images) : grid_(grid), images_(images) {}

  int64_t planes() const { return (images_.shape()[1] + 31) / 32; }  ///< of 32 channels
  int64_t phases() const { return static_cast<int64_t>(grid_.phases.size()); }
  int64_t count() const { return planes() * phases(); }

  /// Returns row i for images [begin, end). Rows are ordered by plane, then by phase.
  TilePositions row(int64_t i, int64_t begin, int64_t end) const;

 private:
  const ConvolutionGrid& grid_;
  const Tensor& images_;
};

/// Returns the images in bf16 and `layout`.
Tensor bf16_images(const Tensor& images, Layout layout);

/// Returns uninitialized bf16 workspace.
Tensor packed_memory(Device& device, int64_t elements);

}  // namespace dptrain::ops::cpu
