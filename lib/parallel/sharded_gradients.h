#pragma once

#include <memory>
#include <vector>

#include "comm/communicator.h"
#include "nn/model.h"
#include "parallel/phase_clock.h"
#include "parallel/weight_units.h"

namespace dptrain::parallel {

/// One rank's end of gradients that are dealt out as weights are: each unit's are summed over the ranks, every part on
/// the rank that owns it, and then have no memory but there. Every rank calls it alike, for its units in one order.
class ShardedGradients {
 public:
  /// Of a model whose gradients are held by these units. `leave_out`: a unit whose gradients aren't summed, as
  /// PlantedFault::bucket_left_out wants it; -1: none.
  ShardedGradients(nn::Model& model, Communicator& communicator, PhaseClock& clock,
                   const std::vector<WeightUnit>& units, int leave_out = -1);

  /// The sums of the rank's parts of all units, flat as its weights are.
  const Tensor& own() const { return own_; }
  /// A unit's gradients are complete, but for those that nothing wrote, which are 0: begins to sum them.
  void start(int unit);
  /// Blocks until the sum of a unit that was started is there.
  void await(int unit);
  /// The same, and gives the unit's gradients back.
  void finish(int unit);

 private:
  /// By an exchange with others.
  bool is_summed(int unit) const { return communicator_.size() > 1 && unit != leave_out_; }
  Tensor own_part(const WeightUnit& unit) const;

  nn::Model& model_;
  Communicator& communicator_;
  PhaseClock& clock_;
  const std::vector<WeightUnit>& units_;
  int leave_out_;
  Tensor own_;
  std::vector<std::unique_ptr<CommWork>> works_;  ///< by unit; null where none is under way
};

}  // namespace dptrain::parallel
