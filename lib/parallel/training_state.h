#pragma once

#include <optional>
#include <vector>

#include "nn/named_values.h"
#include "optim/loss_scale.h"

namespace dptrain::parallel {

/// All that a training carries from step to step on its devices, so that another can go on from it: on other devices,
/// too.
struct TrainingState {
  std::vector<nn::NamedValues> model;  ///< parameters and running statistics
  std::vector<nn::NamedValues>
      optimizer;                         ///< "exp_avg.conv1.weight": the optimizer's name for it, then the parameter's
  std::vector<nn::NamedValues> average;  ///< the weights' moving average, by parameter; empty where there is none
  /// What lossy exchanges of gradients carry along; empty where there are none.
  std::vector<nn::NamedValues> compression = {};
  /// Of replicas that train by themselves what they carry along, `model` and `optimizer` being their mean; see
  /// ReplicaMean::gather_state.
  std::vector<nn::NamedValues> replicas = {};
  std::optional<optim::LossScaleNumbers> loss_scale;  ///< of fp16
};

}  // namespace dptrain::parallel
