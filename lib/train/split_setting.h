#pragma once

#include <optional>

#include "config/config_reader.h"
#include "data/batch_split.h"

namespace dptrain::train {

/// How a batch is shared out among the devices.
struct SplitSetting {
  std::optional<BatchSplit> weights = {};  ///< as written; by default even
  bool measured = false;                   ///< by what the devices are measured to compute, before the first step
};

/// Reads the key `split`: even, auto, or a weight for each of `devices` devices.
SplitSetting read_split(ConfigReader& config, int devices);

/// The weights that samples a second of the devices ask for: hundredths of an even share, 1 at least.
BatchSplit split_of_speeds(const std::vector<double>& samples_per_s);

}  // namespace dptrain::train
