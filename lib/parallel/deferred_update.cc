#include "parallel/deferred_update.h"

#include "base/check.h"
#include "parallel/phase_clock.h"
#include "parallel/replica.h"

namespace dptrain::parallel {

void DeferredUpdate::begin() {
  DPTRAIN_CHECK(left_ == 0, "an update begins while {} buckets of the last one are left", left_);
  // Only the numbers in `step_` are used later. Its tensors, which a GPU would read, change when the next step begins.
  step_ = replica_.optimizer_step();
  left_ = buckets_.count();
}

void DeferredUpdate::finish_down_to(int last) {
  while (left_ > last) {
    const int bucket = --left_;
    {
      const InPhase communicating(replica_.clock(), Phase::communication);
      buckets_.finish(bucket);
    }
    replica_.update_run(buckets_.bucket(bucket), step_);
    if (left_ == 0) replica_.end_update();
  }
}

}  // namespace dptrain::parallel
