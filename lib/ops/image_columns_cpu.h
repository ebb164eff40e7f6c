#pragma once

#include "ops/conv2d.h"

namespace dptrain::ops::cpu {

// Convolutions with so few weights per output that one tile's depth holds the whole window. The pixels under the window
// become the channels of a 1 x 1 convolution.

/// Whether a window's weights [O, C, KH, KW] fit a tile's depth.
bool fits_columns(const Shape& weight);
/// Like fits_columns(Shape), but also requires the plain layout.
bool fits_columns(const Tensor& weight);

/// Returns how many images' columns are built at once, for outputs [N, O, H, W]. It doesn't depend on the number of
/// threads.
int64_t images_of_columns(const Shape& y);

/// Returns [N, 32, y's rows and columns] in nhwc, in workspace: for each output, the pixels of x under its window, in
/// the order of the weights. Lanes past C * KH * KW hold zeros or other pixels, and no weights multiply them.
Tensor image_columns(const Tensor& x, const Shape& weight, const Shape& y, const Conv2dOptions& options);

/// Returns the weights for image_columns, [O, C * KH * KW, 1, 1], in the same memory as `weight`.
Tensor weights_of_columns(const Tensor& weight);

}  // namespace dptrain::ops::cpu
