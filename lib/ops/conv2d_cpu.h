#pragma once

#include "ops/conv2d.h"

namespace dptrain::ops::cpu {

// Each convolution by the way that the rule of its shape, element type and instruction set chooses: tiles of bf16,
// Winograd, samples in lanes or oneDNN's direct algorithm.

Tensor conv2d_forward(const Tensor& x, const Tensor& weight, const Tensor& bias, const Shape& output,
                      const Conv2dOptions& options);
Tensor conv2d_backward_data(const TensorForm& x, const Tensor& weight, const Tensor& output_gradient,
                            const Conv2dOptions& options);
void conv2d_backward_weights(const Tensor& x, const Tensor& output_gradient, const Conv2dWeightGradients& gradients,
                             const Conv2dOptions& options);

/// Whether samples in lanes are the fastest way to a convolution's maxima, where its outputs go to a max pool and
/// nowhere else. In bf16, too, where tiles would have to build columns of the images, and write outputs that are
/// nobody's.
bool leaves_maxima_to_samples(const TensorForm& x, const Shape& weight, const Conv2dOptions& options);

/// Plain images of up to so many channels are convolved into blocked ones as they are.
constexpr int64_t kFewChannels = 3;

Layout conv2d_output_layout(const Shape& weight);
Layout conv2d_weight_layout(const Shape& weight);

}  // namespace dptrain::ops::cpu
