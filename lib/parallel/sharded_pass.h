#pragma once

#include <cstdint>
#include <functional>
#include <set>

#include "parallel/sharded_gradients.h"
#include "parallel/sharded_weights.h"

namespace dptrain::parallel {

/// Controls which units of sharded weights have memory during a rank's pass: the current unit, and the next unit, which
/// is gathered meanwhile. The gradients of a unit are summed while the pass is at the next unit. All ranks go through
/// all units in the same order, even a rank without samples.
class ShardedPass {
 public:
  struct Options {
    /// If true, units are released as soon as the forward pass leaves them and gathered again for the backward pass. If
    /// false, they are kept until the backward pass leaves them.
    bool reshard_after_forward = true;
    /// Called after every exchange of a new size, if such an exchange must not overlap other work; see
    /// RecordedExchanges::run. Empty if all devices are CPU workers.
    std::function<void()> apart = {};
  };
  ShardedPass(ShardedWeights& weights, ShardedGradients& gradients, const Options& options);

  /// Whether weights are gathered when they are needed; false while all of them are held.
  bool is_active() const { return !weights_.holds_all(); }
  /// `is_new`: the step may make a GPU load kernels.
  void begin_step(bool is_new) { apart_ = is_new && options_.apart; }
  /// Begins the passes of one of the step's micro-batches, with or without samples; `end` ends them. Gradients are
  /// summed in the last micro-batch.
  void begin(bool is_last);
  /// Begins a forward pass without a backward pass; `end` ends it. `samples`: of all ranks together.
  void begin_evaluation(int64_t samples);
  /// The forward pass is about to use a parameter.
  void enter_forward(const Parameter& parameter);
  /// The backward pass is about to write a parameter's gradient.
  void enter_backward(const Parameter& parameter);
  void end();

 private:
  // Visits number the units in the order of the passes: forward through units 0 to U - 1, then backward to 0.
  int unit_at(int visit) const { return visit < count() ? visit : 2 * count() - 1 - visit; }
  int count() const { return static_cast<int>(weights_.units().size()); }
  bool is_tied(int unit) const { return weights_.units()[static_cast<size_t>(unit)].is_tied; }
  bool is_needed(int unit) const;
  void advance_to(int visit);
  void arrive();
  void gather(int unit);
  void sum(int unit);
  /// Ends the sum that is under way, if any.
  void finish_sum();

  ShardedWeights& weights_;
  ShardedGradients& gradients_;
  Options options_;
  bool is_last_ = false;
  bool goes_back_ = true;
  bool apart_ = false;
  std::set<int64_t> evaluated_;  ///< sample counts of the evaluations so far
  int visit_ = -1;
  int under_way_ = -1;  ///< the unit whose gradients are being summed; -1: none
};

}  // namespace dptrain::parallel
