#pragma once

#include "tensor/tensor_form.h"

namespace dptrain::ops {

/// How a convolution is computed. `automatic` is a fixed rule of shape, element type and instruction set on CPU workers
/// and on GPUs that are `deterministic`, so that the bits are the same from run to run, and else what is measured to be
/// the fastest. `winograd` and `direct` are with and without Winograd's algorithm, where a convolution can be computed
/// so: on a GPU with and without ours, in f32.
enum class ConvolutionAlgorithm { automatic, direct, winograd };

struct Conv2dOptions {
  int64_t stride = 1;
  int64_t padding = 0;
  /// The output is max(0, y): forward saves a pass; backward takes the gradient before the ReLU. Whether a NaN stays
  /// one is up to the vendor's library.
  bool relu = false;
  ConvolutionAlgorithm algorithm = ConvolutionAlgorithm::automatic;
};

/// y[n,o,i,j] = bias[o] + sum over c, u, v of x[n, c, i*stride + u - padding, j*stride + v - padding] * weight[o,c,u,v]
/// x: [N, C, H, W]; weight: [O, C, KH, KW] in conv2d_weight_layout or plain; bias: [O], or undefined for none.
/// Returns [N, O, (H + 2*padding - KH) / stride + 1, ...] in conv2d_output_layout.
Tensor conv2d_forward(const Tensor& x, const Tensor& weight, const Tensor& bias, const Conv2dOptions& options);

/// The gradient with respect to x, in the layout of `x`.
Tensor conv2d_backward_data(const TensorForm& x, const Tensor& weight, const Tensor& output_gradient,
                            const Conv2dOptions& options);

/// Where the gradients with respect to weight (any layout of weights) and, where it is defined, bias are written; with
/// `accumulate_*` they are added to what stands there.
struct Conv2dWeightGradients {
  Tensor weight;
  Tensor bias;
  bool accumulate_weight = false;
  bool accumulate_bias = false;
};
void conv2d_backward_weights(const Tensor& x, const Tensor& output_gradient, const Conv2dWeightGradients& gradients,
                             const Conv2dOptions& options);

/// The layout of the images that a convolution by a weight [O, C, KH, KW] gives on a device, a fixed rule: blocks of 16
/// channels on AVX-512 and of 8 below, but nhwc where padding C or O to 16 would waste over a quarter of it, or to 8
/// where the window is 1x1, or 3x3 over 16 channels or more.
Layout conv2d_output_layout(const Device& device, const Shape& weight);

/// The layout in which a weight [O, C, KH, KW] is best kept: it then needs no conversion in a step.
Layout conv2d_weight_layout(const Device& device, const Shape& weight);

/// Whether Winograd convolutions are computed on such a device of this machine.
bool has_winograd(const Device& device);

}  // namespace dptrain::ops
