#pragma once

#include "ops/conv2d.h"

namespace dptrain::ops::cpu {

// Convolutions by the machine's matrix unit for bf16. Operands are bf16, sums are f32, and outputs are rounded once.

/// Whether a convolution of this type may be computed this way: bf16, on a machine with such a unit, unless the options
/// ask for Winograd.
bool convolves_by_tiles(DType dtype, const Conv2dOptions& options);

Tensor conv2d_forward_by_tiles(const Tensor& x, const Tensor& weight, const Tensor& bias, const Shape& output,
                               const Conv2dOptions& options);
Tensor conv2d_backward_data_by_tiles(const TensorForm& x, const Tensor& weight, const Tensor& output_gradient,
                                     const Conv2dOptions& options);
void conv2d_backward_weights_by_tiles(const Tensor& x, const Tensor& output_gradient,
                                      const Conv2dWeightGradients& gradients, const Conv2dOptions& options);

}  // namespace dptrain::ops::cpu
