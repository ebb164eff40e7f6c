#pragma once

#include "tensor/tensor_form.h"

namespace dptrain::ops {

/// How a convolution is computed. `automatic` on CPU workers and on GPUs that are `deterministic` is a fixed rule of
/// shape, element type and instruction set, so that results are the same bits in every run. On other GPUs it is the
/// algorithm that measures fastest. `winograd` and `direct` are with and without Winograd's algorithm, for convolutions
/// that can be computed that way; on a GPU with and without our own Winograd kernels, in f32.
enum class ConvolutionAlgorithm { automatic, direct, winograd };

struct Conv2dOptions {
  int64_t stride = 1;
  int64_t padding = 0;
  /// The output is max(0, y), which saves a pass in forward; backward takes the gradient before the ReLU. Whether NaN
  /// stays NaN depends on the vendor's library.
  bool relu = false;
  ConvolutionAlgorithm algorithm = ConvolutionAlgorithm::automatic;
};

/// Returns the convolution of x with weight:
/// y[n,o,i,j] = bias[o] + sum over c, u, v of x[n, c, i*stride + u - padding, j*stride + v - padding] * weight[o,c,u,v]
/// x: [N, C, H, W]; weight: [O, C, KH, KW] in conv2d_weight_layout or plain; bias: [O], or undefined for none. The
/// result is [N, O, (H + 2*padding - KH) / stride + 1, ...] in conv2d_output_layout.
Tensor conv2d_forward(const Tensor& x, const Tensor& weight, const Tensor& bias, const Conv2dOptions& options);

/// Returns the gradient with respect to x, in the layout of `x`.
Tensor conv2d_backward_data(const TensorForm& x, const Tensor& weight, const Tensor& output_gradient,
                            const Conv2dOptions& options);

/// Where the gradients of weight (in any layout of weights) and bias (if defined) are written. With `accumulate_*` they
/// are added to the values there.
struct Conv2dWeightGradients {
  Tensor weight;
  Tensor bias;
  bool accumulate_weight = false;
  bool accumulate_bias = false;
};
void conv2d_backward_weights(const Tensor& x, const Tensor& output_gradient, const Conv2dWeightGradients& gradients,
                             const Conv2dOptions& options);

/// Returns the layout of a convolution's output images for a weight [O, C, KH, KW]: nhwc on a GPU. CPU workers follow a
/// fixed rule: blocks of 16 channels on AVX-512 and of 8 below, but nhwc if padding O, or C above 3, to 16 would waste
/// over a quarter of the lanes. 1x1 windows, and 3x3 windows with at least 16 channels on both sides, are padded to the
/// block's size instead of 16.
Layout conv2d_output_layout(const Device& device, const Shape& weight);

/// Returns the layout in which a weight [O, C, KH, KW] is best kept, so that training steps don't convert it.
Layout conv2d_weight_layout(const Device& device, const Shape& weight);

/// Whether this machine computes Winograd convolutions on this kind of device.
bool has_winograd(const Device& device);

}  // namespace dptrain::ops
