#pragma once

#include "ops/conv2d.h"

namespace dptrain::ops::cpu {

// Winograd's convolution F(4x4, 3x3) by our own kernels. Tiles of 6 x 6 inputs and the weights are transformed; 36
// products of matrices over the channels then give a tile of 4 x 4 outputs, with a quarter of the multiplications. Each
// thread takes a group of tiles through all steps, so that the transformed numbers stay in its caches. The weights are
// transformed again for each group, which costs a few hundredths of the products.

/// Whether these kernels run on this machine.
bool has_winograd();
/// Whether a weight [O, C, KH, KW] has a window for these kernels and enough channels to make up for the transforms.
bool fills_winograd(const Shape& weight);
/// Whether the rule chooses Winograd; the same for all three passes.
bool computes_winograd(const Shape& weight, const Conv2dOptions& options);

Tensor conv2d_forward_by_winograd(const Tensor& x, const Tensor& weight, const Tensor& bias, const Shape& output,
                                  const Conv2dOptions& options);
Tensor conv2d_backward_data_by_winograd(const TensorForm& x, const Tensor& weight, const Tensor& output_gradient,
                                        const Conv2dOptions& options);
void conv2d_backward_weights_by_winograd(const Tensor& x, const Tensor& output_gradient,
                                         const Conv2dWeightGradients& gradients, const Conv2dOptions& options);

}  // namespace dptrain::ops::cpu
