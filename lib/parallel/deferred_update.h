#pragma once

#include "nn/model.h"
#include "optim/optimizer.h"
#include "parallel/gradient_buckets.h"

namespace dptrain::parallel {

class Replica;

/// Makes a step's update during the next step's forward pass. When that pass reaches a layer, it waits for the sums of
/// the layer's bucket and updates the bucket. The pass reads weights only after their update, so the weights are
/// bit-identical to those of an update at the end of the step.
///
/// Purpose: if the link needs longer for the gradients than backward runs, gradients can also travel during the forward
/// pass. The first layers' buckets, which backward completes last, then get the highest priority (priority-based
/// parameter propagation: Jayarajan et al., 2019; ByteScheduler: Peng et al., 2019).
///
/// One for each rank; used by its thread.
class DeferredUpdate {
 public:
  DeferredUpdate(Replica& replica, GradientBuckets& buckets) : replica_(replica), buckets_(buckets) {}

  /// Begins the update of the current step. Its gradients must be complete and their sums started.
  void begin();
  /// Blocks until the parameter has its weights from the update that was begun last.
  void require(const Parameter& parameter) { finish_down_to(buckets_.bucket_of(parameter)); }
  /// Blocks until all parameters have these weights. Gradients may be written afterwards.
  void finish() { finish_down_to(0); }

 private:
  /// Updates the remaining buckets, beginning with the first layers' bucket, down to bucket `last`. All ranks use this
  /// one order, including a rank that has no samples and so no forward pass.
  void finish_down_to(int last);

  Replica& replica_;
  GradientBuckets& buckets_;
  optim::OptimizerStep step_;
  int left_ = 0;  ///< buckets 0 to left_ - 1 still wait for their update
};

}  // namespace dptrain::parallel
