#pragma once

#include <cstdint>

namespace dptrain::parallel {

/// The steps after which replicas that train by themselves are averaged.
struct AveragingSteps {
  int64_t period = 8;
  int64_t warmup_steps = 0;  ///< the weights are averaged after each of a run's first `warmup_steps` steps

  /// Whether replicas are averaged after `step`, counted from 1.
  bool averages_after(int64_t step) const { return step <= warmup_steps || (step - warmup_steps) % period == 0; }
};

}  // namespace dptrain::parallel
