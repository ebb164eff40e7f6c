#pragma once

#include <cstdint>
#include <functional>
#include <set>

#include "parallel/sharded_gradients.h"
#include "parallel/sharded_weights.h"

namespace dptrain::parallel {

/// Which units of dealt out weights have memory when, in a pass of a rank: the unit that the pass is at, and the one
/// that it comes to next, which is gathered meanwhile. Gradients of a unit are summed while the pass is at the next
/// one. All ranks come to all units in one order, also one that has no samples.
class ShardedPass {
 public:
  struct Options {
    /// Units are released as soon as forward has left them, and gathered once more; or kept until backward has.
    bool reshard_after_forward = true;
    /// Called after every exchange of a size that is new, where none may go on beside anything else: see
    /// RecordedExchanges::run. Empty where all devices are CPU workers.
    std::function<void()> apart = {};
  };
  ShardedPass(ShardedWeights& weights, ShardedGradients& gradients, const Options& options);

  /// Whether weights are gathered as they are needed, not there as a whole.
  bool is_active() const { return !weights_.holds_all(); }
  /// `is_new`: a GPU may have kernels to load in it.
  void begin_step(bool is_new) { apart_ = is_new && options_.apart; }
  /// From here to `end` one of its micro-batches, with or without samples: of the last one gradients are summed.
  void begin(bool is_last);
  /// From here to `end` a forward pass that no backward pass follows; `samples`: that all ranks have together.
  void begin_evaluation(int64_t samples);
  /// Forward is about to use a parameter.
  void enter_forward(const Parameter& parameter);
  /// Backward is about to write its gradient.
  void enter_backward(const Parameter& parameter);
  void end();

 private:
  // A visit is of a unit: forward's of units 0 to U - 1, then backward's back to 0.
  int unit_at(int visit) const { return visit < count() ? visit : 2 * count() - 1 - visit; }
  int count() const { return static_cast<int>(weights_.units().size()); }
  bool is_tied(int unit) const { return weights_.units()[static_cast<size_t>(unit)].is_tied; }
  bool is_needed(int unit) const;
  void advance_to(int visit);
  void arrive();
  void gather(int unit);
  void sum(int unit);

  ShardedWeights& weights_;
  ShardedGradients& gradients_;
  Options options_;
  bool is_last_ = false;
  bool goes_back_ = true;
  bool apart_ = false;
  std::set<int64_t> evaluated_;  ///< samples of evaluations so far
  int visit_ = -1;
  int under_way_ = -1;  ///< the unit whose gradients are being summed; -1: none
};

}  // namespace dptrain::parallel
