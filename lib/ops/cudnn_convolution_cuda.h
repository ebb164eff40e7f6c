#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ops/convolution_plan_cuda.h"

namespace dptrain::ops::cuda {

/// Which of cuDNN's algorithms may be chosen.
struct ConvolutionRules {
  bool deterministic = false;  ///< those alone that end in the same bits on every run
  bool tf32 = false;           ///< f32 inputs may be rounded to TF32
  bool tensor_cores = false;   ///< none but those that use them
};

struct ConvolutionOffer {
  std::vector<std::unique_ptr<ConvolutionPlan>> plans = {};  ///< cuDNN's guess of the best first
  std::string refusal = {};  ///< where there are none, what cuDNN said of it, if anything
  /// Looks for what else computes the problem, but slowly; empty where nothing is to be looked for.
  std::function<std::vector<std::unique_ptr<ConvolutionPlan>>()> others = {};
};

/// cuDNN's plans for a problem by the device's rules: the first few.
ConvolutionOffer cudnn_convolutions(Device& device, const ConvolutionProblem& problem);

/// How many algorithms cuDNN offers for a problem on a GPU that this machine need not have. `gpu`: its properties in
/// cuDNN's own JSON (CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION).
int count_cudnn_convolutions(const ConvolutionProblem& problem, const ConvolutionRules& rules, std::string_view gpu);

}  // namespace dptrain::ops::cuda
