#pragma once

#include "ops/conv2d.h"
#include "ops/pool2d.h"

namespace dptrain::ops {

// A convolution whose outputs go to a max pool and nowhere else, as one operator. Its outputs are never in memory as a
// whole. Backward computes only with the gradients of the maxima, since all other outputs have a gradient of zero.

struct Conv2dMaxPoolOptions {
  Conv2dOptions convolution = {};
  Pool2dOptions pool = {};
};

/// Whether the two can be one operator: on CPU workers, if the convolution is computed with samples in lanes and the
/// pool's windows neither overlap nor hang over the edge. Depends only on shapes and on how the convolution is
/// computed.
bool convolves_and_pools(const TensorForm& x, const Shape& weight, const Conv2dMaxPoolOptions& options);

/// Computes conv2d_forward, then pool2d_forward, with the same arguments and result. In f32 y and workspace match
/// theirs bit for bit. With bf16 tensors all computations are in f32 and only y is rounded, so that no numbers become
/// equal before the pool.
Pool2dResult conv2d_max_pool_forward(const Tensor& x, const Tensor& weight, const Tensor& bias,
                                     const Conv2dMaxPoolOptions& options);

/// The gradient of the pool's output, with the places of its maxima.
struct MaximaGradient {
  Tensor workspace;
  Tensor gradient;  ///< of y, in any layout
};

/// Returns the gradient with respect to x, in the layout of `x`.
Tensor conv2d_max_pool_backward_data(const TensorForm& x, const Tensor& weight, const MaximaGradient& incoming,
                                     const Conv2dMaxPoolOptions& options);

void conv2d_max_pool_backward_weights(const Tensor& x, const MaximaGradient& incoming,
                                      const Conv2dWeightGradients& gradients, const Conv2dMaxPoolOptions& options);

}  // namespace dptrain::ops
