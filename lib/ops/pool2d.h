#pragma once

#include "tensor/tensor_form.h"

namespace dptrain::ops {

enum class Pooling { max, average };

struct Pool2dOptions {
  int64_t kernel = 2;
  int64_t stride = 2;
  int64_t padding = 0;
  /// Windows that hang over the edge count too (PyTorch's ceil_mode).
  bool ceil = false;
  /// Of maxima over windows of at most 15 a side: y = max(0, y). The same bits as a ReLU before the pool, and a quarter
  /// of its work.
  bool relu = false;
};

struct Pool2dResult {
  Tensor y;          ///< [N, C, OH, OW], in the layout of x
  Tensor workspace;  ///< which input each maximum came from; undefined for averages
};

/// Pooling over windows of kernel x kernel. x: [N, C, H, W] in any layout of images. An average counts the padding
/// (PyTorch's count_include_pad) but not what a ceiling hangs over the edge.
Pool2dResult pool2d_forward(const Tensor& x, Pooling pooling, const Pool2dOptions& options);

/// The gradient with respect to x, in the layout of x. `workspace` is the forward pass's.
Tensor pool2d_backward(const TensorForm& x, const Tensor& workspace, const Tensor& output_gradient, Pooling pooling,
                       const Pool2dOptions& options);

/// The mean of each channel: [N, C, H, W] in any layout to a plain [N, C].
Tensor global_average_pool_forward(const Tensor& x);

/// The gradient with respect to x, in the layout of x.
Tensor global_average_pool_backward(const TensorForm& x, const Tensor& output_gradient);

}  // namespace dptrain::ops
