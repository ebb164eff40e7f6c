#pragma once

#include "ops/conv2d.h"

namespace dptrain::ops::cpu {

// Convolutions of images whose channels don't fill vectors, by our own kernels. Forward and the gradient of x have one
// sample in each lane of a vector. The gradient of the weights has neighboring pixels of a window in the lanes.

/// Whether a convolution is computed this way, by a rule of shapes, options and instruction set.
bool convolves_by_samples(const Shape& x, const Shape& weight, const Conv2dOptions& options);

Tensor conv2d_forward_by_samples(const Tensor& x, const Tensor& weight, const Tensor& bias, const Shape& output,
                                 const Conv2dOptions& options);
Tensor conv2d_backward_data_by_samples(const TensorForm& x, const Tensor& weight, const Tensor& output_gradient,
                                       const Conv2dOptions& options);
void conv2d_backward_weights_by_samples(const Tensor& x, const Tensor& output_gradient,
                                        const Conv2dWeightGradients& gradients, const Conv2dOptions& options);

}  // namespace dptrain::ops::cpu
