#pragma once

#include <optional>

#include "config/config_reader.h"
#include "data/batch_split.h"

namespace dptrain::train {

/// How a batch is split among the devices.
struct SplitSetting {
  std::optional<BatchSplit> weights = {};  ///< as written; nothing: even
  bool measured = false;                   ///< by the devices' speed, measured before the first step
};

/// Reads the key `split`: even, auto, or a weight for each of `devices` devices.
SplitSetting read_split(ConfigReader& config, int devices);

/// The weights that follow from the devices' samples per second, in hundredths of an even share and at least 1.
BatchSplit split_of_speeds(const std::vector<double>& samples_per_s);

}  // namespace dptrain::train
