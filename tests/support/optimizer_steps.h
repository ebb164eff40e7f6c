#pragma once

#include "optim/optimizer.h"

namespace dptrain::testing {

/// One step of an optimizer that has all of a model's parameters. The optimizer first measures what it needs to.
inline void step_whole(optim::Optimizer& optimizer, const optim::FlatWeights& flat, optim::OptimizerStep step) {
  step.squares = ops::no_tensor_squares(flat.weights.device(), flat.parameters);
  optimizer.measure(step, step.squares);
  optimizer.step(step);
}

}  // namespace dptrain::testing
