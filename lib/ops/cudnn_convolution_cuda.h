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
  bool deterministic = false;  ///< only those that give the same bits on every run
  bool tf32 = false;           ///< f32 inputs may be rounded to TF32
  bool tensor_cores = false;   ///< only those that use tensor cores
};

struct ConvolutionOffer {
  std::vector<std::unique_ptr<ConvolutionPlan>> plans = {};  ///< best first, by cuDNN's guess
  std::string refusal = {};                                  ///< cuDNN's reason if there are no plans; may be empty
  /// Finds more plans, which are slow. Empty if there is nothing to look for.
  std::function<std::vector<std::unique_ptr<ConvolutionPlan>>()> others = {};
};

/// Returns the first few of cuDNN's plans for a problem that the device's rules allow.
ConvolutionOffer cudnn_convolutions(Device& device, const ConvolutionProblem& problem);

/// Returns how many algorithms cuDNN offers for a problem on a GPU, which this machine need not have. `gpu`: the GPU's
/// properties in cuDNN's own JSON (CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION).
int count_cudnn_convolutions(const ConvolutionProblem& problem, const ConvolutionRules& rules, std::string_view gpu);

}  // namespace dptrain::ops::cuda
