#pragma once

#include "ops/convolution_grid.h"
#include "ops/tile_convolution.h"

namespace dptrain::ops::cpu {

/// Of images in nhwc or nchw16c.
ImageStrides image_strides(const Tensor& images);

/// The long rows of a group of images, [channels / 32][phase][position][32 channels] in bf16, in memory of its owner.
class PackedImages {
 public:
  /// `length`: positions of a long row, grid.length(images) or more. The memory is to be zero.
  PackedImages(const ConvolutionGrid& grid, const Tensor& images, int64_t length, Bfloat16* memory);

  /// bf16 numbers that it takes.
  static int64_t elements(const ConvolutionGrid& grid, const Tensor& images, int64_t length);

  /// Writes an image of the tensor to a place of the group. The zeros between the images stay.
  void pack(int64_t image, int64_t place) const;

  int64_t planes() const { return planes_; }
  int64_t plane() const { return static_cast<int64_t>(grid_.phases.size()) * length_ * 32; }
  const Bfloat16* data() const { return memory_; }

 private:
  const ConvolutionGrid& grid_;
  const Tensor& images_;
  int64_t length_, planes_;
  Bfloat16* memory_;
};

/// Images in the layout that a convolution reads.
Tensor bf16_images(const Tensor& images, Layout layout);

/// bf16 workspace, uninitialized.
Tensor packed_memory(Device& device, int64_t elements);

}  // namespace dptrain::ops::cpu
