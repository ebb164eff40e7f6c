#include "ops/tile_images_cpu.h"

#include "ops/reorder.h"

namespace dptrain::ops::cpu {

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

TilePositions TileRows::row(int64_t i, int64_t begin, int64_t end) const {
  const ImageStrides strides = image_strides(images_);
  const ConvolutionGrid::Phase& phase = grid_.phases[static_cast<size_t>(i % phases())];
  const int64_t block = i / phases() * 2, stride = grid_.stride;
  const int64_t height = images_.shape()[2], width = images_.shape()[3];
  const auto of_phase = [&](int64_t pixels, int64_t first) { return (pixels - first + stride - 1) / stride; };
  return {.pixels = images_.data<Bfloat16>() + begin * strides.image + block * strides.block +
                    (phase.row * width + phase.column) * strides.pixel,
          .images = end - begin,
          .image = strides.image,
          .height = of_phase(height, phase.row),
          .width = of_phase(width, phase.column),
          .down = stride * width * strides.pixel,
          .along = stride * strides.pixel,
          .channels = strides.channels - 16 * block,
          .block = strides.block,
          .rows = grid_.rows,
          .columns = grid_.columns,
          .lead = grid_.lead};
}

}  // namespace dptrain::ops::cpu
