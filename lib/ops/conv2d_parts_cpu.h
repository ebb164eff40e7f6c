#pragma once

#include "ops/conv2d.h"

namespace dptrain::ops::cpu {

// The convolutions of conv2d_cpu.h, by parts of the output channels where that saves memory: Winograd's workspace holds
// all weights transformed, 36 numbers for nine, and once more for each thread in their gradient. For 512 x 512 channels
// that were 131 MB, more than half of the activations of ResNet-18 at batch 64. In parts they take 3 to 8 % longer,
// of images of 4 x 4, which is 0.5 % of that net's step. Those of conv2d_tiles_cpu.h, where AMX computes them, are
// always whole.

Tensor conv2d_forward_in_parts(const Tensor& x, const Tensor& weight, const Tensor& bias, const Shape& output,
                               const Conv2dOptions& options);
Tensor conv2d_backward_data_in_parts(const TensorForm& x, const Tensor& weight, const Tensor& output_gradient,
                                     const Conv2dOptions& options);
void conv2d_backward_weights_in_parts(const Tensor& x, const Tensor& output_gradient,
                                      const Conv2dWeightGradients& gradients, const Conv2dOptions& options);

}  // namespace dptrain::ops::cpu
