#pragma once

#include "ops/conv2d_max_pool.h"

namespace dptrain::ops::cpu {

// Forward computes with one sample in each lane of a vector, like conv2d_samples_cpu.h. Backward works sample by
// sample, from lists of the maxima alone. Images are in nhwc.

bool convolves_and_pools(const TensorForm& x, const Shape& weight, const Conv2dMaxPoolOptions& options);

/// `output` is the shape of y.
Pool2dResult conv2d_max_pool_forward(const Tensor& x, const Tensor& weight, const Tensor& bias, const Shape& output,
                                     const Conv2dMaxPoolOptions& options);
Tensor conv2d_max_pool_backward_data(const TensorForm& x, const Tensor& weight, const MaximaGradient& incoming,
                                     const Conv2dMaxPoolOptions& options);
void conv2d_max_pool_backward_weights(const Tensor& x, const MaximaGradient& incoming,
                                      const Conv2dWeightGradients& gradients, const Conv2dMaxPoolOptions& options);

}  // namespace dptrain::ops::cpu
