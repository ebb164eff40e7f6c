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

/// One rank's end of weights that are dealt out: it owns a part of each unit's, and the model has memory for all of a
/// unit from `gather` to `release` alone, which every rank calls alike.
///
/// In half precision the copies are gathered that operators read. Parameters that they read as f32 values, those of
/// norms, are few: every rank has them as a whole, see ValueOperands.
class ShardedWeights {
 public:
  struct Options {
    WeightUnitOptions units = {};
    DType compute = DType::f32;
    nn::InitializationOptions initialization = {};
  };
  /// Places the model, its rank's parts holding their first values. `clock`: told of communication.
  ShardedWeights(nn::Model& model, Device& device, Communicator& communicator, PhaseClock& clock,
                 const Options& options);
  ShardedWeights(const ShardedWeights&) = delete;
  ShardedWeights& operator=(const ShardedWeights&) = delete;

  const std::vector<WeightUnit>& units() const { return units_; }
  int unit_of(const Parameter& parameter) const { return unit_of_parameter_[static_cast<size_t>(parameter.index())]; }
  /// The rank's parts of all units, flat: f32 values.
  const Tensor& own() const { return own_; }
  /// What of a parameter is among them, flat; undefined where nothing is.
  Tensor own_of(const Parameter& parameter) const;
  /// The same as optimizers see them, with gradients that lie alike.
  optim::FlatWeights own_flat(const Tensor& gradients) const;

  /// Begins to bring a unit's weights together, unless it has begun. Whoever reads them then waits for them.
  void gather(int unit);
  /// Blocks until a unit that is gathered is there.
  void await(int unit);
  /// Gives the memory of a unit back, where it has any.
  void release(int unit);
  bool holds(int unit) const { return gathered_[static_cast<size_t>(unit)].weights.defined(); }

  /// After all changes of `own` but the optimizer's, which writes its copies itself.
  void refresh_copies();
  /// After all changes of `own`. Blocks.
  void share_values();

  /// Brings all units together, for ranks that compute without each other until `release_all`.
  void hold_all();
  void release_all();
  bool holds_all() const { return holds_all_; }

 private:
  struct Gathered {
    Tensor weights;  ///< of all ranks, in the type that is gathered; undefined while there are none
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
  Tensor own_copies_;  ///< undefined where operators compute in f32
  std::vector<Gathered> gathered_;
  std::optional<ValueOperands> values_;  ///< of half precision
  bool holds_all_ = false;
};

}  // namespace dptrain::parallel
