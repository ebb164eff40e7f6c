#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "train/step_trace.h"

namespace dptrain::train {

/// What of a step is compared, in the order in which a fault spreads.
enum class ComparedPass {
  forward,   ///< what a stage of the model made of all samples
  loss,      ///< of the step
  backward,  ///< a parameter's gradient, summed over all devices
  weights,   ///< a parameter or running statistic after the steps
};

/// "forward", "loss", "backward", "weights".
std::string_view pass_name(ComparedPass pass);

/// How far a layer is from what it should be.
struct LayerDifference {
  ComparedPass pass = ComparedPass::forward;
  int64_t step = 1;   ///< of weights the last one
  std::string layer;  ///< a stage, or a parameter; empty of the loss
  double difference = 0;
};

/// The norm of a difference over the norm of what is expected; 1 where that is zero and the other isn't, or where they
/// have not as many values. Not a number where a value isn't one.
double relative_difference(std::span<const float> got, std::span<const float> expected);

/// Of every layer of `expected`, in the order in which a step computes them: step by step the stages, the loss, and the
/// gradients from the last parameter to the first; then the state. Of ranks with different gradients that which is
/// farthest off counts. One more of the same `expected` has the same layers in the same order.
std::vector<LayerDifference> trace_differences(const Trace& got, const Trace& expected);

}  // namespace dptrain::train
