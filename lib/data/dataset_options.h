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

/// What decides in which order an epoch goes through a data set.
struct SampleOrder {
  bool shuffle = true;
  /// Each process has a contiguous part of the samples (see epoch_order.h), or all train on all of them; nothing where
  /// the strategy decides.
  std::optional<bool> by_process = {};
};

/// Reads `shuffle` and `partition`.
SampleOrder read_sample_order(ConfigReader& config);

/// What every data set of images takes.
struct DatasetOptions {
  /// The first so many samples of either part; all where there are fewer.
  std::optional<int64_t> limit = {};
  std::optional<int64_t> test_limit = {};
  Normalization normalization = {};
  SampleOrder order = {};
};

/// Reads these of a data set with `channels` channels.
DatasetOptions read_dataset_options(ConfigReader& config, int64_t channels);

inline int64_t limited(int64_t samples, std::optional<int64_t> limit) {
  return std::min(samples, limit.value_or(samples));
}

}  // namespace dptrain
