#pragma once

#include <optional>

#include "train/run_figures.h"

namespace dptrain::train {

/// Why a run isn't as many times as fast as the first one as it has more cores or GPUs: an even share of the first
/// run's seconds, and what an epoch of this one takes beyond it. All of them together are its seconds an epoch. What a
/// part takes less than its even share is negative.
struct LostSeconds {
  double even_share_s = 0;
  double compute_s = 0;        ///< as less is computed at once, or by slower devices
  double straggler_s = 0;      ///< as one device is slower than others that do as much, and as others wait for it
  double communication_s = 0;  ///< exposed, and not such a wait
  double optimizer_s = 0;      ///< as every device updates all weights
  double data_wait_s = 0;
  double other_s = 0;
};

/// None where one of them has unlike devices, or they have other kinds of devices.
std::optional<LostSeconds> lost_seconds(const RunFigures& first, const RunFigures& run);

}  // namespace dptrain::train
