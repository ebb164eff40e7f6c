#pragma once

#include "ops/winograd_sizes.h"
#include "tensor/tensor.h"

namespace dptrain::ops::cuda {

/// The most rows that kernels can count in 32 bits, with one stride of a grid to spare.
inline constexpr int64_t kMostWinogradRows = int64_t{1} << 30;

/// How images are cut into tiles of 4 x 4 outputs of Winograd's convolution. Tiles are numbered over images, rows and
/// columns of tiles.
struct WinogradTiling {
  int64_t images;
  int64_t rows, columns;  ///< of tiles, in an image; the last ones may overhang

  /// Cuts a convolution's outputs, or their gradients.
  explicit WinogradTiling(const Shape& outputs)
      : images(outputs[0]),
        rows((outputs[2] + kWinogradOutputs - 1) / kWinogradOutputs),
        columns((outputs[3] + kWinogradOutputs - 1) / kWinogradOutputs) {}
  int64_t count() const { return images * rows * columns; }
};

// The transforms between images in nhwc and matrices for the 36 products of a tile; see winograd_transforms.h. All
// tensors are f32. Matrices are plain and have a row for each tile, at most kMostWinogradRows; rows past the last tile
// are zero. Each number is read from memory once and written once: the other tiles of a pixel read it from caches. The
// additions of a transform are hidden behind that, so a GPU takes only the time of the bytes. For images of P bytes
// these are P + 36/16 P, and more if tiles overhang.

/// Transforms x [N, C, H, W], with `padding` zeros around it, to v [36, rows, C].
void transform_inputs(const Tensor& x, const WinogradTiling& tiling, int64_t padding, const Tensor& v);

/// Transforms weight [O, C, 3, 3] in nhwc to u [36, O, C]. `turned` turns the weights by 180 degrees, for the gradient
/// of x.
void transform_weights(const Tensor& weight, bool turned, const Tensor& u);

/// Transforms m [36, rows, O] to y [N, O, OH, OW]. Adds bias [O] if it is defined, then takes max(0, .) if `relu`.
void transform_outputs(const Tensor& m, const WinogradTiling& tiling, const Tensor& bias, bool relu, const Tensor& y);

/// Transforms dy [N, O, OH, OW] to z [36, rows, O].
void transform_output_gradients(const Tensor& dy, const WinogradTiling& tiling, const Tensor& z);

/// Sums du [36 * parts, O, C] over the parts, in their order, and transforms the sums to the weight's gradient [O, C,
/// 3, 3] in nhwc. The parts of a product follow each other in du.
void transform_weight_gradient(const Tensor& du, const Tensor& gradient);

}  // namespace dptrain::ops::cuda
