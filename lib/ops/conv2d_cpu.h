#pragma once

#include "ops/conv2d.h"

namespace dptrain::ops::cpu {

// A fixed rule of shape, element type and instruction set chooses how to compute each convolution: tiles of bf16,
// Winograd, samples in lanes, or oneDNN's direct algorithm.

Tensor conv2d_forward(const Tensor& x, const Tensor& weight, const Tensor& bias, const Shape& output,
                      const Conv2dOptions& options);
Tensor conv2d_backward_data(const TensorForm& x, const Tensor& weight, const Tensor& output_gradient,
                            const Conv2dOptions& options);
void conv2d_backward_weights(const Tensor& x, const Tensor& output_gradient, const Conv2dWeightGradients& gradients,
                             const Conv2dOptions& options);

/// Whether samples in lanes are the fastest way to compute only a convolution's maxima, for outputs that go to a max
/// pool and nowhere else. This can hold in bf16 too if tiles would have to build columns of the images: they would also
/// write outputs that nobody reads.
bool leaves_maxima_to_samples(const TensorForm& x, const Shape& weight, const Conv2dOptions& options);

/// Plain images of up to so many channels are convolved into blocked ones without a conversion.
constexpr int64_t kFewChannels = 3;

Layout conv2d_output_layout(const Shape& weight);
Layout conv2d_weight_layout(const Shape& weight);

}  // namespace dptrain::ops::cpu
