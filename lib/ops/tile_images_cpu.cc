#include "ops/tile_images_cpu.h"

#include "ops/reorder.h"

namespace dptrain::ops::cpu {
namespace {

int64_t planes_of(const Tensor& images) { return (images.shape()[1] + 31) / 32; }

}  // namespace

ImageStrides image_strides(const Tensor& images) {
  const int64_t channels = images.shape()[1], pixels = images.shape()[2] * images.shape()[3];
  if (images.layout() == Layout::nhwc)
    return {.channels = channels, .image = pixels * channels, .block = 16, .pixel = channels};
  return {.channels = channels, .image = (channels + 15) / 16 * 16 * pixels, .block = 16 * pixels, .pixel = 16};
}

Tensor bf16_images(const Tensor& images, Layout layout) {
  return converted(images, {.dtype = DType::bf16, .layout = layout, .purpose = MemoryPurpose::workspace});
}

Tensor packed_memory(Device& device, int64_t elements) {
  return Tensor::empty(device, {elements}, {.dtype = DType::bf16, .purpose = MemoryPurpose::workspace});
}

PackedImages::PackedImages(const ConvolutionGrid& grid, const Tensor& images, int64_t length, Bfloat16* memory)
    : grid_(grid), images_(images), length_(length), planes_(planes_of(images)), memory_(memory) {}

int64_t PackedImages::elements(const ConvolutionGrid& grid, const Tensor& images, int64_t length) {
  return planes_of(images) * static_cast<int64_t>(grid.phases.size()) * length * 32;
}

void PackedImages::pack(int64_t image, int64_t place) const {
  const ImageStrides strides = image_strides(images_);
  const int64_t height = images_.shape()[2], width = images_.shape()[3], stride = grid_.stride;
  Bfloat16* to = memory_ + (grid_.lead + place * grid_.image()) * 32;
  for (const ConvolutionGrid::Phase& phase : grid_.phases) {
    convolution_tile_kernels()->pack_pixels({.pixels = images_.data<Bfloat16>() + image * strides.image +
                                                       (phase.row * width + phase.column) * strides.pixel,
                                             .height = (height - phase.row + stride - 1) / stride,
                                             .width = (width - phase.column + stride - 1) / stride,
                                             .down = stride * width * strides.pixel,
                                             .along = stride * strides.pixel,
                                             .block = strides.block,
                                             .channels = strides.channels,
                                             .to = to,
                                             .columns = grid_.columns,
                                             .plane = plane()});
    to += length_ * 32;
  }
}

}  // namespace dptrain::ops::cpu
