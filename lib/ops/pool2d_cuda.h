#pragma once

#include "ops/pool2d.h"

namespace dptrain::ops::cuda {

// Images are in nhwc, or are converted to it. The workspace of a maximum is u8: its place in the window, counted row by
// row.

Pool2dResult pool2d_forward(const Tensor& x, const Shape& output, Pooling pooling, const Pool2dOptions& options);
Tensor pool2d_backward(const TensorForm& x, const Tensor& workspace, const Tensor& output_gradient, Pooling pooling,
                       const Pool2dOptions& options);
Tensor global_average_pool_forward(const Tensor& x);
Tensor global_average_pool_backward(const TensorForm& x, const Tensor& output_gradient);

}  // namespace dptrain::ops::cuda
