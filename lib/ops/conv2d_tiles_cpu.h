#pragma once

#include "ops/conv2d.h"

namespace dptrain::ops::cpu {

// Convolutions by the machine's unit for bf16: operands as they are, sums in f32, outputs rounded once.

/// Whether a convolution of such a tensor may be computed this way: those of bf16, where the machine has a unit for it,
/// but not those that are to be Winograd's.
bool convolves_by_tiles(DType dtype, const Conv2dOptions& options);

Tensor conv2d_forward_by_tiles(const Tensor& x, const Tensor& weight, const Tensor& bias, const Shape& output,
                               const Conv2dOptions& options);
Tensor conv2d_backward_data_by_tiles(const TensorForm& x, const Tensor& weight, const Tensor& output_gradient,
                                     const Conv2dOptions& options);
void conv2d_backward_weights_by_tiles(const Tensor& x, const Tensor& output_gradient,
                                      const Conv2dWeightGradients& gradients, const Conv2dOptions& options);

}  // namespace dptrain::ops::cpu
