#pragma once

#include "nn/model.h"
#include "optim/optimizer.h"
#include "parallel/gradient_buckets.h"

namespace dptrain::parallel {

class Replica;

/// A step's update that is made while the next step's forward pass runs: each bucket's as soon as that pass comes to a
/// layer of it, whose gradients have until then to arrive. Weights are read after their update and never before, so
/// the bits are those of an update at the step's end.
///
/// What it is for: over a link that takes longer for the gradients than backward takes, they may travel during the
/// forward pass as well. For that the first layers' buckets, which backward completes last, go before all others
/// (priority-based parameter propagation: Jayarajan et al., 2019; ByteScheduler: Peng et al., 2019).
///
/// One for each rank; used by its thread.
class DeferredUpdate {
 public:
  DeferredUpdate(Replica& replica, GradientBuckets& buckets) : replica_(replica), buckets_(buckets) {}

  /// The update of the step in hand, whose gradients are complete and whose sums are under way.
  void begin();
  /// Blocks until the parameter has the weights of the update that was begun last.
  void require(const Parameter& parameter) { finish_down_to(buckets_.bucket_of(parameter)); }
  /// The same of all parameters. Gradients may be written after it.
  void finish() { finish_down_to(0); }

 private:
  /// Updates the buckets that are left, from the first layers' on, to bucket `last`: in one order on all ranks, also
  /// where a rank has no samples, and with them no forward pass.
  void finish_down_to(int last);

  Replica& replica_;
  GradientBuckets& buckets_;
  optim::OptimizerStep step_;
  int left_ = 0;  ///< buckets 0 to left_ - 1 aren't updated yet
};

}  // namespace dptrain::parallel
