#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "train/step_trace.h"

namespace dptrain::train {

/// The parts of a step that are compared, in the order in which a fault spreads.
enum class ComparedPass {
  forward,   ///< a stage's output for all samples
  loss,      ///< the step's loss
  backward,  ///< a parameter's gradient, summed over all devices
  weights,   ///< a parameter or running statistic after the steps
};

/// "forward", "loss", "backward", "weights".
std::string_view pass_name(ComparedPass pass);

/// The difference of a layer from its expected value.
struct LayerDifference {
  ComparedPass pass = ComparedPass::forward;
  int64_t step = 1;   ///< for weights, the last step
  std::string layer;  ///< a stage or a parameter; empty for the loss
  double difference = 0;
};

/// The norm of the difference over the norm of `expected`. 1 if `expected` is all zero and `got` isn't, or if they have
/// different sizes. NaN if a value is NaN.
double relative_difference(std::span<const float> got, std::span<const float> expected);

/// The difference of every layer in `expected`, in the order in which a step computes them: for each step the stages,
/// the loss, and the gradients from the last parameter to the first; then the final state. If ranks have different
/// gradients, the one that is farthest off counts. Calls with the same `expected` return the same layers in the same
/// order.
std::vector<LayerDifference> trace_differences(const Trace& got, const Trace& expected);

}  // namespace dptrain::train
