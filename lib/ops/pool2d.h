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
  /// y = max(0, y), for max pooling over windows with sides of at most 15. Gives the same bits as a ReLU before the
  /// pool, for a quarter of its work.
  bool relu = false;
};

struct Pool2dResult {
  Tensor y;          ///< [N, C, OH, OW], in the layout of x
  Tensor workspace;  ///< which input each maximum came from; undefined for averages
};

/// Pools windows of kernel x kernel. x: [N, C, H, W] in any layout of images. An average counts the padding (PyTorch's
/// count_include_pad), but not the area that `ceil` windows cover beyond it.
Pool2dResult pool2d_forward(const Tensor& x, Pooling pooling, const Pool2dOptions& options);

/// Returns the gradient with respect to x, in the layout of x. `workspace` is from the forward pass.
Tensor pool2d_backward(const TensorForm& x, const Tensor& workspace, const Tensor& output_gradient, Pooling pooling,
                       const Pool2dOptions& options);

/// Returns the mean of each channel: [N, C, H, W] in any layout becomes a plain [N, C].
Tensor global_average_pool_forward(const Tensor& x);

/// Returns the gradient with respect to x, in the layout of x.
Tensor global_average_pool_backward(const TensorForm& x, const Tensor& output_gradient);

}  // namespace dptrain::ops
