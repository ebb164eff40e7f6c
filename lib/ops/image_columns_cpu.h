#pragma once

#include "ops/conv2d.h"

namespace dptrain::ops::cpu {

// Convolutions with so few weights that one tile's depth holds an output's whole window: what the window covers becomes
// the channels of a convolution of 1 x 1.

/// Whether a window's weights [O, C, KH, KW] fit a tile's depth.
bool fits_columns(const Shape& weight);
/// The same of weights that are plain, as they must be.
bool fits_columns(const Tensor& weight);

/// Images whose columns are built at once, however many threads there are: of outputs [N, O, H, W].
int64_t images_of_columns(const Shape& y);

/// [N, 32, y's rows and columns] in nhwc, workspace: at each output's place what its window covers of x, in the order
/// of the weights. Lanes past C * KH * KW hold zeros or other pixels; they meet no weights.
Tensor image_columns(const Tensor& x, const Shape& weight, const Shape& y, const Conv2dOptions& options);

/// The weights that belong to them, [O, C * KH * KW, 1, 1]: the same memory.
Tensor weights_of_columns(const Tensor& weight);

}  // namespace dptrain::ops::cpu
