#pragma once

#include "ops/conv2d.h"

namespace dptrain::ops::cpu {

Tensor conv2d_forward(const Tensor& x, const Tensor& weight, const Tensor& bias, const Shape& output,
                      const Conv2dOptions& options);
Tensor conv2d_backward_data(const TensorForm& x, const Tensor& weight, const Tensor& output_gradient,
                            const Conv2dOptions& options);
void conv2d_backward_weights(const Tensor& x, const Tensor& output_gradient, const Conv2dWeightGradients& gradients,
                             const Conv2dOptions& options);
Layout conv2d_output_layout(int64_t in_channels, int64_t out_channels);
Layout conv2d_weight_layout(const Shape& weight);
bool has_winograd();
/// Whether the rule chooses Winograd, in all three passes.
bool computes_winograd(const Shape& x, const Shape& weight, const Conv2dOptions& options);

}  // namespace dptrain::ops::cpu
