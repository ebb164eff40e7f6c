#pragma once

#include "train/metrics.h"

namespace dptrain::train {

/// What an epoch takes because one device is slower than others, the mean over the devices.
struct Imbalance {
  /// Of the seconds computing: what devices take longer than the fastest one, where all have as many samples. Where
  /// not, as of a pipeline's stages or of a split, what each has to do isn't known to be as much, and this is 0.
  double compute_s = 0;
  /// Of the exposed communication: what devices wait for the one that computes longest.
  double wait_s = 0;
};

Imbalance imbalance_of(const EpochMetrics& epoch);

}  // namespace dptrain::train
