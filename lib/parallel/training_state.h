#pragma once

#include <optional>
#include <vector>

#include "nn/named_values.h"
#include "optim/loss_scale.h"

namespace dptrain::parallel {

/// Everything that a run carries from step to step on its devices. Another run can continue from it, even on other
/// devices.
struct TrainingState {
  std::vector<nn::NamedValues> model;  ///< parameters and running statistics
  /// Such as "exp_avg.conv1.weight": the optimizer's name for the state, then the parameter's name.
  std::vector<nn::NamedValues> optimizer;
  std::vector<nn::NamedValues> average;  ///< the weights' moving average, by parameter; empty if there is none
  /// What lossy exchanges of gradients carry along; empty if there are none.
  std::vector<nn::NamedValues> compression = {};
  /// What replicas that train separately carry along; `model` and `optimizer` are then their mean. See
  /// ReplicaMean::gather_state.
  std::vector<nn::NamedValues> replicas = {};
  std::optional<optim::LossScaleNumbers> loss_scale;  ///< in fp16
};

}  // namespace dptrain::parallel
