#pragma once

#include <memory>
#include <string>
#include <vector>

#include "config/config_reader.h"
#include "nn/model.h"
#include "ops/update_control.h"

namespace dptrain::optim {

struct OptimizerStep {
  double learning_rate = 0;
  ops::UpdateControl control = {};
};

/// Updates all weights of a model from its gradients. Its state lies flat, beside the weights.
class Optimizer {
 public:
  virtual ~Optimizer() = default;
  /// One step over the model's flat buffers.
  virtual void step(nn::Model& model, const OptimizerStep& step) = 0;
  void step(nn::Model& model, double learning_rate) { step(model, OptimizerStep{.learning_rate = learning_rate}); }
};

/// An optimizer that a configuration names, its options read; `make` gives each replica one of its own.
struct OptimizerSpec {
  std::string name;
  std::function<std::unique_ptr<Optimizer>(nn::Model&)> make;
};

/// Reads the key `optimizer`: `sgd`, or {name: sgd, momentum: 0.9, ...}.
OptimizerSpec read_optimizer(ConfigReader& config);

}  // namespace dptrain::optim
