#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace dptrain::train {

struct EpochMetrics;

/// The rank that the others waited for.
struct Straggler {
  int rank = 0;
  double slower = 1;    ///< its seconds of computing over the median of the others'
  double waited_s = 0;  ///< seconds of the epoch: its seconds of computing minus that median
};

/// Finds the straggler of an epoch from each rank's seconds of computing, which are 0 for a rank that has no part of a
/// batch. It is the rank that exceeds the median of the others most. It must have computed at least 1.5 times that
/// median, and longer than it by at least a tenth of the epoch's `seconds`. Epochs of fewer than ten steps have no
/// straggler, so that a passing disturbance isn't reported. In a pipeline with `pipeline_devices`, a rank is only
/// compared with ranks that have the same stages, because other ranks have other work.
std::optional<Straggler> find_straggler(const std::vector<double>& compute_s, double seconds, int64_t steps,
                                        int pipeline_devices = 1);

/// A sentence about an epoch's straggler and about what would help, without a full stop. `may_split`: the batch can be
/// split differently. None if there is no straggler.
std::optional<std::string> straggler_advice(const EpochMetrics& metrics, bool may_split);

}  // namespace dptrain::train
