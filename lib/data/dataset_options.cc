#include "data/dataset_options.h"

namespace dptrain {

DatasetOptions read_dataset_options(ConfigReader& config, int64_t channels) {
  DatasetOptions options;
  options.limit = config.optional_integer("limit", {.min = 1, .help = "train on the first so many samples"});
  options.test_limit = config.optional_integer("test_limit", {.min = 1, .help = "test on the first so many samples"});
  options.normalization = read_normalization(config, channels);
  options.shuffle = config.boolean("shuffle", true, "a new order each epoch, keyed by the seed");
  return options;
}

}  // namespace dptrain
