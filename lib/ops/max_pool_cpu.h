#pragma once

#include "ops/pool2d.h"

namespace dptrain::ops::cpu {

// Max pooling over windows with sides of at most kLargestWindowOfPlaces, in any layout of images, with the ReLU in the
// same pass. The workspace holds one place per maximum, u8 in the layout of y.

Pool2dResult max_pool_forward(const Tensor& x, const Shape& output, const Pool2dOptions& options);
Tensor max_pool_backward(const TensorForm& x, const Tensor& workspace, const Tensor& output_gradient,
                         const Pool2dOptions& options);

}  // namespace dptrain::ops::cpu
