#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <tuple>

#include "tensor/tensor.h"

namespace dptrain::ops::cuda {

enum class ConvolutionPass { forward, data_gradient, weight_gradient };

/// One pass of a convolution over images and weights in nhwc (weights [O, KH, KW, C] in memory), all of one type.
struct ConvolutionProblem {
  ConvolutionPass pass = ConvolutionPass::forward;
  DType dtype = DType::f32;
  Shape x = {};       ///< [N, C, H, W]
  Shape weight = {};  ///< [O, C, KH, KW]
  Shape y = {};       ///< [N, O, OH, OW]
  int64_t stride = 1;
  int64_t padding = 0;
  bool bias = false;  ///< forward: adds bias[o]
  bool relu = false;  ///< forward: then max(0, .)

  auto key() const {
    return std::tuple(pass, dtype, x[0], x[1], x[2], x[3], weight[0], weight[2], weight[3], stride, padding, bias,
                      relu);
  }
};

/// The operands of a pass, and where its result goes:
///   forward           x, weight and bias to y
///   data_gradient     y's gradient and weight to x's gradient
///   weight_gradient   x and y's gradient to the weight's gradient
struct ConvolutionOperands {
  Tensor first;
  Tensor second;
  Tensor bias = {};  ///< of the problem's type
  Tensor out;
};

/// One algorithm for a problem on one device. Used by the device's rank thread.
class ConvolutionPlan {
 public:
  virtual ~ConvolutionPlan() = default;
  /// Enqueues the pass on the device's stream. Returns false if a library refuses the pass; `refusal` then has the
  /// reason.
  virtual bool run(const ConvolutionOperands& operands) = 0;
  virtual std::string refusal() const = 0;
  /// The memory that a run takes besides the operands.
  virtual int64_t workspace_bytes() const = 0;
  /// The name of the plan in logs of operators.
  virtual std::string_view name() const = 0;
};

/// The most workspace that a plan may take. cuDNN offers plans that want ten times what the images take. If channels
/// are odd in number, tensor cores want padded copies of both images, up to twice as large.
inline int64_t most_workspace_bytes(const ConvolutionProblem& p) {
  return (int64_t{64} << 20) + (p.x.elements() + p.y.elements()) * dtype_bytes(p.dtype) * 5 / 2;
}

}  // namespace dptrain::ops::cuda
