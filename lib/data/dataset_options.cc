#include "data/dataset_options.h"

namespace dptrain {

DatasetLimits read_limits(ConfigReader& config) {
  return {.train = config.optional_integer("limit", {.min = 1, .help = "train on the first so many samples"}),
          .test = config.optional_integer("test_limit", {.min = 1, .help = "test on the first so many samples"})};
}

bool read_shuffle(ConfigReader& config) {
  return config.boolean("shuffle", true, "a new order each epoch, keyed by the seed");
}

DatasetOptions read_dataset_options(ConfigReader& config, int64_t channels) {
  const DatasetLimits limits = read_limits(config);
  return {.limit = limits.train,
          .test_limit = limits.test,
          .normalization = read_normalization(config, channels),
          .shuffle = read_shuffle(config)};
}

}  // namespace dptrain
