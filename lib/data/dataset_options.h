#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "config/config_reader.h"
#include "data/normalization.h"

namespace dptrain {

/// The first so many samples of either part; all where there are fewer.
struct DatasetLimits {
  std::optional<int64_t> train = {};
  std::optional<int64_t> test = {};
};

/// Reads `limit` and `test_limit`.
DatasetLimits read_limits(ConfigReader& config);
/// Reads `shuffle`.
bool read_shuffle(ConfigReader& config);

/// What every data set of images takes.
struct DatasetOptions {
  /// The first so many samples of either part; all where there are fewer.
  std::optional<int64_t> limit = {};
  std::optional<int64_t> test_limit = {};
  Normalization normalization = {};
  bool shuffle = true;
};

/// Reads `limit`, `test_limit`, `normalize` and `shuffle` of a data set with `channels` channels.
DatasetOptions read_dataset_options(ConfigReader& config, int64_t channels);

inline int64_t limited(int64_t samples, std::optional<int64_t> limit) {
  return std::min(samples, limit.value_or(samples));
}

}  // namespace dptrain
