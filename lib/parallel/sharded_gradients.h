#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "comm/communicator.h"
#include "nn/model.h"
#include "parallel/phase_clock.h"
#include "parallel/shard_groups.h"
#include "parallel/weight_units.h"

namespace dptrain::parallel {

/// One rank's end of gradients that are sharded like the weights. Each unit's gradients are summed over the ranks that
/// share a copy of the weights, each part on the rank that owns it. If there are several copies, the owners of a part
/// then sum it over the copies. Afterwards only the owned parts have memory. Every rank makes the same calls, with
/// units in the same order.
class ShardedGradients {
 public:
  /// `units`: by which the model holds its gradients. `leave_out`: a unit whose gradients aren't summed, for
  /// PlantedFault::bucket_left_out; -1: none.
  /// `measure`: gets each unit's gradients of this rank, before they are summed; may be empty.
  ShardedGradients(nn::Model& model, const ShardCommunicators& communicators, PhaseClock& clock,
                   const std::vector<WeightUnit>& units, int leave_out = -1,
                   std::function<void(const Tensor& gradients)> measure = {});

  /// The sums of this rank's parts of all units, in the same flat order as its weights.
  const Tensor& own() const { return own_; }
  /// Begins to sum a unit's gradients. They are complete, except that gradients that no pass wrote count as 0.
  void start(int unit);
  /// Blocks until the sum of a started unit over the ranks of a copy is there.
  void await(int unit);
  /// Waits like `await`, then frees the unit's gradients. With several copies, begins to sum over them.
  void finish(int unit);
  /// Whether `finish` begins a sum over several copies.
  bool has_copies() const { return communicators_.copies != nullptr; }
  /// Blocks until all sums over several copies are there.
  void await_copies();

 private:
  /// Whether an exchange with other ranks sums the unit.
  bool is_summed(int unit) const { return communicators_.shards.size() > 1 && unit != leave_out_; }
  Tensor own_part(const WeightUnit& unit) const;

  nn::Model& model_;
  const ShardCommunicators communicators_;
  PhaseClock& clock_;
  const std::vector<WeightUnit>& units_;
  int leave_out_;
  std::function<void(const Tensor&)> measure_;
  Tensor own_;
  std::vector<std::unique_ptr<CommWork>> works_;      ///< by unit; null if no sum is under way
  std::vector<std::unique_ptr<CommWork>> of_copies_;  ///< sums over the copies, in the order begun
};

}  // namespace dptrain::parallel
