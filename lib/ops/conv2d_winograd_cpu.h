#pragma once

#include "ops/conv2d.h"

namespace dptrain::ops::cpu {

// Winograd's convolution F(4x4, 3x3) by kernels of our own: tiles of 6 x 6 inputs and the weights are transformed, 36
// products of matrices over the channels make a tile of 4 x 4 outputs, with a quarter of the multiplications. Each
// thread takes some tiles through all of that, so that what is transformed stays in its caches; the weights are
// transformed again for every such group, which costs a few hundredths of the products.

/// Whether these kernels run on this machine.
bool has_winograd();
/// Whether the window of such a weight [O, C, KH, KW] is theirs, and its channels are as many as make up for
/// transforms.
bool fills_winograd(const Shape& weight);
/// Whether the rule chooses Winograd, in all three passes.
bool computes_winograd(const Shape& weight, const Conv2dOptions& options);

Tensor conv2d_forward_by_winograd(const Tensor& x, const Tensor& weight, const Tensor& bias, const Shape& output,
                                  const Conv2dOptions& options);
Tensor conv2d_backward_data_by_winograd(const TensorForm& x, const Tensor& weight, const Tensor& output_gradient,
                                        const Conv2dOptions& options);
void conv2d_backward_weights_by_winograd(const Tensor& x, const Tensor& output_gradient,
                                         const Conv2dWeightGradients& gradients, const Conv2dOptions& options);

}  // namespace dptrain::ops::cpu
