#pragma once

#include "train/metrics.h"

namespace dptrain::train {

/// What an epoch takes because one device computes longer than others that do the same, the mean over the devices. Of a
/// pipeline those are the devices of the same stages: these may differ by what they compute.
struct Imbalance {
  /// Of the seconds computing: what devices take longer than the fastest one of theirs, where all of those have as many
  /// samples. Where not, as of a split, what each has to do isn't known to be as much, and this is 0.
  double compute_s = 0;
  /// Of the exposed communication: what devices wait for the one that computes longest.
  double wait_s = 0;
};

Imbalance imbalance_of(const EpochMetrics& epoch);

}  // namespace dptrain::train
