#pragma once

#include <optional>

#include "train/run_figures.h"

namespace dptrain::train {

/// Explains why a run's speed-up is smaller than its number of cores or GPUs, relative to the first run. The parts are
/// an even share of the first run's seconds, and what this run's epoch takes beyond that share. Their sum is the run's
/// seconds per epoch. A part that takes less than its even share is negative.
struct LostSeconds {
  double even_share_s = 0;
  double compute_s = 0;        ///< computing on smaller batches, or on slower devices
  double straggler_s = 0;      ///< one device computes longer than others with the same work, and others wait for it
  double communication_s = 0;  ///< exposed, without the waits in `straggler_s`
  double optimizer_s = 0;      ///< every device updates all weights
  double data_wait_s = 0;
  double other_s = 0;
};

/// None if one of the runs has unlike devices, or if the two have different kinds of devices.
std::optional<LostSeconds> lost_seconds(const RunFigures& first, const RunFigures& run);

}  // namespace dptrain::train
