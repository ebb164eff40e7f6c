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
  Tensor squares = {};  ///< of an optimizer that measures: of all parameters, whole ones
};

/// What an optimizer keeps beside the weights, by PyTorch's name for it: flat, as its weights lie.
struct OptimizerState {
  std::string name;
  Tensor values;
};

/// Updates weights from their gradients: a whole model's, or those of a range. Its state lies flat, beside them.
class Optimizer {
 public:
  static constexpr bool kMeasures = false;  ///< OptimizerSpec::measures, of those that don't say otherwise
  virtual ~Optimizer() = default;
  /// One step over the weights that it was made for, from the gradients that it was made for.
  void step(const OptimizerStep& step) { step_range(0, flat_.gradients, step); }
  /// The same over those weights alone that have these gradients: from element `begin` on, a multiple of 16.
  virtual void step_range(int64_t begin, const Tensor& gradients, const OptimizerStep& step) = 0;
  /// Of an optimizer that measures (OptimizerSpec): comes before each step, which is then one over all weights at once.
  /// Adds to the sums of parameters (ops::no_tensor_squares) what it has of them; where others have parts of the same
  /// parameters, the step is given what all have added.
  virtual void measure(const OptimizerStep&, const Tensor& /*squares*/) {}
  /// All that it keeps from step to step; a checkpoint holds it.
  virtual std::vector<OptimizerState> state() const = 0;

 protected:
  explicit Optimizer(FlatWeights flat) : flat_(std::move(flat)) {}
  const FlatWeights& flat() const { return flat_; }

 private:
  FlatWeights flat_;
};

/// An optimizer that a configuration names, its options read; `make` gives one for these weights.
struct OptimizerSpec {
  std::string name;
  std::function<std::unique_ptr<Optimizer>(const FlatWeights&)> make;
  double weight_decay = 0;
  /// The update of a weight goes by norms of its parameter and of that one's gradients, so that all have to be there.
  bool measures = false;
};

/// Those that don't measure.
inline constexpr const char* kUnmeasured = "sgd, adam or adamw";

/// Reads the key `optimizer`: `sgd`, or {name: adamw, betas: [0.9, 0.98], ...}.
OptimizerSpec read_optimizer(ConfigReader& config);

}  // namespace dptrain::optim
