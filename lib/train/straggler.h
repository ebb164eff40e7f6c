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
  double slower = 1;    ///< its seconds computing over the median of the others'
  double waited_s = 0;  ///< of the epoch: the difference
};

/// Of an epoch over these steps, by the seconds that each rank has computed, 0 of one that has no part of a batch: the
/// rank that took longest, where that is at least 1.5 times as long as the median of the others, at least a tenth of
/// the epoch's `seconds` longer, and there were at least ten steps, so that a passing disturbance is none. Of a
/// pipeline of so many devices the others are the ranks that have the same stages: these may differ by what they
/// compute.
std::optional<Straggler> find_straggler(const std::vector<double>& compute_s, double seconds, int64_t steps,
                                        int pipeline_devices = 1);

/// What to tell of an epoch's straggler, and what would help: one sentence without a full stop. `may_split`: the batch
/// can be shared out in another way. None where there is no straggler.
std::optional<std::string> straggler_advice(const EpochMetrics& metrics, bool may_split);

}  // namespace dptrain::train
