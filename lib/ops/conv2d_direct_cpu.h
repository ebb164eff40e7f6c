#pragma once

#include "ops/conv2d.h"

namespace dptrain::ops::cpu {

// Direct convolutions by oneDNN.

Tensor conv2d_forward_directly(const Tensor& x, const Tensor& weight, const Tensor& bias, const Shape& output,
                               const Conv2dOptions& options);
Tensor conv2d_backward_data_directly(const TensorForm& x, const Tensor& weight, const Tensor& output_gradient,
                                     const Conv2dOptions& options);
void conv2d_backward_weights_directly(const Tensor& x, const Tensor& output_gradient,
                                      const Conv2dWeightGradients& gradients, const Conv2dOptions& options);

}  // namespace dptrain::ops::cpu
