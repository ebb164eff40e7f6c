#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "config/config_reader.h"
#include "data/normalization.h"

namespace dptrain {

/// How many samples to take of each part, from its beginning; a part with fewer samples is taken whole.
struct DatasetLimits {
  std::optional<int64_t> train = {};
  std::optional<int64_t> test = {};
};

/// Reads `limit` and `test_limit`.
DatasetLimits read_limits(ConfigReader& config);

/// The order in which an epoch goes through a data set.
struct SampleOrder {
  bool shuffle = true;
  /// Whether each process has a contiguous part of the samples (see epoch_order.h), or all processes train on all
  /// samples; empty: the strategy decides.
  std::optional<bool> by_process = {};
};

/// Reads `shuffle` and `partition`.
SampleOrder read_sample_order(ConfigReader& config);

/// Options of every data set of images.
struct DatasetOptions {
  /// How many samples to take of each part, from its beginning; a part with fewer samples is taken whole.
  std::optional<int64_t> limit = {};
  std::optional<int64_t> test_limit = {};
  Normalization normalization = {};
  SampleOrder order = {};
};

/// Reads these options for a data set with `channels` channels.
DatasetOptions read_dataset_options(ConfigReader& config, int64_t channels);

inline int64_t limited(int64_t samples, std::optional<int64_t> limit) {
  return std::min(samples, limit.value_or(samples));
}

}  // namespace dptrain
