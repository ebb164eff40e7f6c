#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "comm/communicator.h"
#include "nn/model.h"
#include "optim/flat_weights.h"
#include "parallel/phase_clock.h"
#include "parallel/value_operands.h"
#include "parallel/weight_units.h"

namespace dptrain::parallel {

/// One rank's end of sharded weights. It owns a part of each unit's weights. The model has memory for a whole unit only
/// between `gather` and `release`, which every rank calls alike.
///
/// In half precision, the copies that operators read are gathered. Some parameters, those of norms, are read as f32
/// values. They are few, so every rank holds all of them; see ValueOperands.
class ShardedWeights {
 public:
  struct Options {
    WeightUnitOptions units = {};
    DType compute = DType::f32;
    nn::InitializationOptions initialization = {};
  };
  /// Places the model and initializes this rank's parts. `clock` is told of communication.
  ShardedWeights(nn::Model& model, Device& device, Communicator& communicator, PhaseClock& clock,
                 const Options& options);
  ShardedWeights(const ShardedWeights&) = delete;
  ShardedWeights& operator=(const ShardedWeights&) = delete;

  const std::vector<WeightUnit>& units() const { return units_; }
  int unit_of(const Parameter& parameter) const { return unit_of_parameter_[static_cast<size_t>(parameter.index())]; }
  /// This rank's parts of all units, flat, as f32 values.
  const Tensor& own() const { return own_; }
  /// The range of `own` that belongs to a parameter, flat; undefined if this rank owns nothing of it.
  Tensor own_of(const Parameter& parameter) const;
  /// `own` in the form that optimizers take, with `gradients` in the same order.
  optim::FlatWeights own_flat(const Tensor& gradients) const;

  /// Begins to gather a unit's weights, unless that has begun. Readers of the weights wait for them.
  void gather(int unit);
  /// Blocks until a unit that is being gathered is there.
  void await(int unit);
  /// Frees the memory of a unit, if it has any.
  void release(int unit);
  bool holds(int unit) const { return gathered_[static_cast<size_t>(unit)].weights.defined(); }

  /// Called after every change of `own` except the optimizer's, which writes the copies itself.
  void refresh_copies();
  /// Called after every change of `own`. Blocks.
  void share_values();

  /// Gathers all units until `release_all`, so that ranks can compute independently.
  void hold_all();
  void release_all();
  bool holds_all() const { return holds_all_; }

 private:
  struct Gathered {
    Tensor weights;  ///< whole unit, in the gathered type; undefined while not gathered
    std::unique_ptr<CommWork> work;
    bool is_bound = false;
  };
  Gathered& gathered(int unit) { return gathered_[static_cast<size_t>(unit)]; }

  nn::Model& model_;
  Device& device_;
  Communicator& communicator_;
  PhaseClock& clock_;
  std::vector<WeightUnit> units_;
  std::vector<int> unit_of_parameter_;
  Tensor own_;
  Tensor own_copies_;  ///< undefined if operators compute in f32
  std::vector<Gathered> gathered_;
  std::optional<ValueOperands> values_;  ///< in half precision
  bool holds_all_ = false;
};

}  // namespace dptrain::parallel
