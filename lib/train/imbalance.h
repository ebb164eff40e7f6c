#pragma once

#include "train/metrics.h"

namespace dptrain::train {

/// The time that an epoch loses because one device computes longer than others with the same work; the mean over the
/// devices. In a pipeline only devices with the same stages are compared, because other devices have other work.
struct Imbalance {
  /// Lost seconds of computing: the time by which devices exceed the fastest comparable one. 0 if comparable devices
  /// have different numbers of samples, as with a split, because their work isn't known to be equal.
  double compute_s = 0;
  /// Lost seconds of exposed communication: the time that devices wait for the one that computes longest.
  double wait_s = 0;
};

Imbalance imbalance_of(const EpochMetrics& epoch);

}  // namespace dptrain::train
