#pragma once

#include "ops/winograd_sizes.h"
#include "tensor/tensor.h"

namespace dptrain::ops::cuda {

/// That kernels count in 32 bits, with one stride of a grid to spare.
inline constexpr int64_t kMostWinogradRows = int64_t{1} << 30;

/// Images cut into tiles of 4 x 4 outputs of Winograd's convolution, numbered over images, rows and columns of tiles.
struct WinogradTiling {
  int64_t images;
  int64_t rows, columns;  ///< of tiles, in an image; the last ones may hang over

  /// Of a convolution's outputs, or of their gradients.
  explicit WinogradTiling(const Shape& outputs)
      : images(outputs[0]),
        rows((outputs[2] + kWinogradOutputs - 1) / kWinogradOutputs),
        columns((outputs[3] + kWinogradOutputs - 1) / kWinogradOutputs) {}
  int64_t count() const { return images * rows * columns; }
};

// Between images in nhwc and matrices for the 36 products of a tile, see winograd_transforms.h. All are f32. Matrices
// are plain and have a row for each tile, at most kMostWinogradRows; rows past the last tile are zero. Each number is
// read from memory and written once: a pixel's tiles read it again from caches. With the additions of a transform
// hidden behind that, a GPU takes the time of its bytes, which for images of P bytes are P + 36/16 P and more where
// tiles hang over.

/// x [N, C, H, W] with `padding` zeros around it to v [36, rows, C].
void transform_inputs(const Tensor& x, const WinogradTiling& tiling, int64_t padding, const Tensor& v);

/// weight [O, C, 3, 3] in nhwc to u [36, O, C]; `turned`: by 180 degrees, as the gradient of x takes it.
void transform_weights(const Tensor& weight, bool turned, const Tensor& u);

/// m [36, rows, O] to y [N, O, OH, OW], plus bias [O] where it is defined, then max(0, .) with `relu`.
void transform_outputs(const Tensor& m, const WinogradTiling& tiling, const Tensor& bias, bool relu, const Tensor& y);

/// dy [N, O, OH, OW] to z [36, rows, O].
void transform_output_gradients(const Tensor& dy, const WinogradTiling& tiling, const Tensor& z);

/// du [36 * parts, O, C], those of a product one after the other, summed over the parts in their order, to the
/// weight's gradient [O, C, 3, 3] in nhwc.
void transform_weight_gradient(const Tensor& du, const Tensor& gradient);

}  // namespace dptrain::ops::cuda
