#pragma once

#include <cstdint>

namespace dptrain::parallel {

/// After which steps replicas that train by themselves become their mean again.
struct AveragingSteps {
  int64_t period = 8;
  int64_t warmup_steps = 0;  ///< of a training's first steps after every one

  /// `step`: from 1.
  bool averages_after(int64_t step) const { return step <= warmup_steps || (step - warmup_steps) % period == 0; }
};

}  // namespace dptrain::parallel
