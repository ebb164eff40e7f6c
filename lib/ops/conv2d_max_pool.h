#pragma once

#include "ops/conv2d.h"
#include "ops/pool2d.h"

namespace dptrain::ops {

// A convolution whose outputs go to a max pool and nowhere else, as one operator: its outputs are never in memory as a
// whole, and of their gradients only those of maxima, the others being zero, are computed with.

struct Conv2dMaxPoolOptions {
  Conv2dOptions convolution = {};
  Pool2dOptions pool = {};
};

/// Whether these can be one operator: on CPU workers where a convolution has samples in its lanes, and the windows of
/// the pool neither overlap nor hang over. A rule of shapes, as that is.
bool convolves_and_pools(const TensorForm& x, const Shape& weight, const Conv2dMaxPoolOptions& options);

/// y and workspace as pool2d_forward of conv2d_forward gives them, bit for bit of f32. Of bf16 all is computed in f32,
/// and only y is rounded, so that no numbers become equal before the pool. Operands as there.
Pool2dResult conv2d_max_pool_forward(const Tensor& x, const Tensor& weight, const Tensor& bias,
                                     const Conv2dMaxPoolOptions& options);

/// The gradient of what such a pass made, with the places of its maxima.
struct MaximaGradient {
  Tensor workspace;
  Tensor gradient;  ///< of y, in any layout
};

/// The gradient with respect to x, in the layout of `x`.
Tensor conv2d_max_pool_backward_data(const TensorForm& x, const Tensor& weight, const MaximaGradient& incoming,
                                     const Conv2dMaxPoolOptions& options);

void conv2d_max_pool_backward_weights(const Tensor& x, const MaximaGradient& incoming,
                                      const Conv2dWeightGradients& gradients, const Conv2dMaxPoolOptions& options);

}  // namespace dptrain::ops
