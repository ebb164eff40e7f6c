#pragma once

#include <cstdint>
#include <memory>
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

/// forward: (x, weight, bias) to y; data_gradient: (y's gradient, weight) to x's; weight_gradient: (x, y's gradient) to
/// the weight's.
struct ConvolutionOperands {
  Tensor first;
  Tensor second;
  Tensor bias = {};  ///< of the problem's type
  Tensor out;
};

/// How the vendor's library computes a problem on one device. Used by the device's rank thread.
class ConvolutionPlan {
 public:
  virtual ~ConvolutionPlan() = default;
  /// Gives the pass to the device's stream; false where the library refuses it, for which `refusal` has the reason. The
  /// first call may time several algorithms, and then blocks.
  virtual bool run(const ConvolutionOperands& operands) = 0;
  virtual std::string refusal() const = 0;
};

/// Which of the library's algorithms may be chosen.
struct ConvolutionRules {
  bool deterministic = false;  ///< those alone that end in the same bits on every run; else the fastest, measured
  bool tf32 = false;           ///< f32 inputs may be rounded to TF32
  bool tensor_cores = false;   ///< none but those that use them
};

struct ConvolutionOffer {
  std::unique_ptr<ConvolutionPlan> plan;  ///< null: the library has no algorithm for the problem by the device's rules
  std::string refusal;                    ///< then, what it said of it, if anything
};

ConvolutionOffer make_convolution_plan(Device& device, const ConvolutionProblem& problem);

/// How many algorithms the library offers for a problem on a GPU that this machine need not have. `gpu`: its properties
/// in cuDNN's own JSON (CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION).
int count_convolution_algorithms(const ConvolutionProblem& problem, const ConvolutionRules& rules,
                                 std::string_view gpu);

}  // namespace dptrain::ops::cuda
