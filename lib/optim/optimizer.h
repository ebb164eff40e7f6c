#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "config/config_reader.h"
#include "ops/update_control.h"
#include "optim/flat_weights.h"

namespace dptrain::optim {

struct OptimizerStep {
  double learning_rate = 0;
  int64_t number = 1;  ///< from 1
  ops::UpdateControl control = {};
  Tensor squares = {};  ///< for an optimizer that measures: the sums of squares of all parameters, whole ones
};

/// A state tensor of an optimizer, under PyTorch's name for it: flat, in the order of its weights.
struct OptimizerState {
  std::string name;
  Tensor values;
};

/// Updates weights from their gradients, for a whole model or for a range of its weights. Its state is flat, in the
/// order of the weights.
class Optimizer {
 public:
  static constexpr bool kMeasures = false;  ///< OptimizerSpec::measures, for optimizers that don't define their own
  virtual ~Optimizer() = default;
  /// One step over all its weights, from the gradients that the optimizer was made for.
  void step(const OptimizerStep& step) { step_range(0, flat_.gradients, step); }
  /// One step over a range of its weights: those from element `begin` on, a multiple of 16, that `gradients` belong to.
  virtual void step_range(int64_t begin, const Tensor& gradients, const OptimizerStep& step) = 0;
  /// For optimizers that measure (see OptimizerSpec): called before each step, which must then cover all weights at
  /// once. Adds this optimizer's share to the parameters' sums of squares (ops::no_tensor_squares). If others have
  /// parts of the same parameters, the step is given the sums over all of them.
  virtual void measure(const OptimizerStep&, const Tensor& /*squares*/) {}
  /// All that the optimizer keeps from step to step; a checkpoint holds it.
  virtual std::vector<OptimizerState> state() const = 0;

 protected:
  explicit Optimizer(FlatWeights flat) : flat_(std::move(flat)) {}
  const FlatWeights& flat() const { return flat_; }

 private:
  FlatWeights flat_;
};

/// An optimizer that a configuration names, with its options read; `make` returns one for the given weights.
struct OptimizerSpec {
  std::string name;
  std::function<std::unique_ptr<Optimizer>(const FlatWeights&)> make;
  double weight_decay = 0;
  /// Whether the update of a weight depends on the norms of its parameter and of the parameter's gradients, so that all
  /// of these must be known first.
  bool measures = false;
};

/// The optimizers that don't measure.
inline constexpr const char* kUnmeasured = "sgd, adam or adamw";

/// Reads the key `optimizer`: `sgd`, or {name: adamw, betas: [0.9, 0.98], ...}.
OptimizerSpec read_optimizer(ConfigReader& config);

}  // namespace dptrain::optim
