#pragma once

#include <algorithm>

#include "ops/reorder.h"
#include "ops/winograd_kernels.h"
#include "tensor/tensor.h"

// Declarations shared by the passes of conv2d_winograd_*.cc.

namespace dptrain::ops::cpu::winograd {

/// A thread takes one group of tiles at a time through all steps. kGroupNumbers is the size of the group's transformed
/// inputs that leaves room for its sums and the weights in a second-level cache. kFewestTiles is the fewest tiles that
/// make up for the transform of the weights.
constexpr int64_t kGroupNumbers = 192 * 1024, kFewestTiles = 48;

inline int64_t parts_of(int64_t whole, int64_t part) { return (whole + part - 1) / part; }

/// Numbers of `blocks` blocks of transformed tiles.
inline int64_t tile_numbers(int64_t blocks, int64_t tiles) {
  return kWinogradProducts * blocks * tiles * winograd_kernels().lanes;
}

/// Numbers of transformed weights for these blocks of inputs and outputs.
inline int64_t weight_numbers(int64_t inputs, int64_t outputs) {
  const WinogradKernels& kernels = winograd_kernels();
  return inputs * (outputs / kernels.panel * kernels.weight_numbers(kernels.panel) +
                   (outputs % kernels.panel > 0 ? kernels.weight_numbers(outputs % kernels.panel) : 0));
}

inline WinogradImages images_of(const Shape& shape) {
  return {.blocks = parts_of(shape[1], winograd_kernels().lanes), .height = shape[2], .width = shape[3]};
}

/// Returns all tiles of outputs with this shape.
inline WinogradTiles tiles_of(const Shape& y) {
  const int64_t rows = parts_of(y[2], kWinogradOutputs), columns = parts_of(y[3], kWinogradOutputs);
  return {.rows = rows, .columns = columns, .first = 0, .count = y[0] * rows * columns};
}

inline WinogradTiles group_of(const WinogradTiles& all, int64_t group, int64_t groups) {
  const int64_t begin = group * all.count / groups, end = (group + 1) * all.count / groups;
  return {.rows = all.rows, .columns = all.columns, .first = begin, .count = end - begin};
}

inline Tensor scratch(Device& device, int64_t parts, int64_t numbers) {
  return Tensor::empty(device, {parts, numbers}, {.purpose = MemoryPurpose::workspace});
}

inline Layout image_layout() { return winograd_kernels().lanes == 16 ? Layout::nchw16c : Layout::nchw8c; }
inline Layout weight_layout() { return winograd_kernels().lanes == 16 ? Layout::oihw16i16o : Layout::oihw8i8o; }

/// Images in the layout of the kernels, f32 or bf16; the tensor itself if it is that already.
inline Tensor blocked(const Tensor& images) {
  return converted(images, {.dtype = images.dtype(), .layout = image_layout(), .purpose = MemoryPurpose::workspace});
}
inline WinogradNumbers numbers_of(const Tensor& images) {
  return {.at = images.raw(), .is_bf16 = images.dtype() == DType::bf16};
}

}  // namespace dptrain::ops::cpu::winograd
