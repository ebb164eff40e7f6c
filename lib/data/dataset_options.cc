#include "data/dataset_options.h"

#include <string>
#include <vector>

namespace dptrain {

DatasetLimits read_limits(ConfigReader& config) {
  return {
      .train = config.optional_integer("limit", {.min = 1, .help = "train on the first samples only, so many of them"}),
      .test =
          config.optional_integer("test_limit", {.min = 1, .help = "test on the first samples only, so many of them"})};
}

SampleOrder read_sample_order(ConfigReader& config) {
  SampleOrder order{.shuffle = config.boolean("shuffle", true, "a new order each epoch, keyed by the seed")};
  const std::vector<std::string> partitions = {"auto", "global", "by_process"};
  const std::string partition = config.one_of(
      "partition", partitions, "auto",
      "how several processes share the samples. global: every batch is drawn from all samples; by_process: each "
      "process has a part of its own, shuffled inside (the default with kvstore's types dist_*)");
  if (partition != "auto") order.by_process = partition == "by_process";
  return order;
}

DatasetOptions read_dataset_options(ConfigReader& config, int64_t channels) {
  const DatasetLimits limits = read_limits(config);
  return {.limit = limits.train,
          .test_limit = limits.test,
          .normalization = read_normalization(config, channels),
          .order = read_sample_order(config)};
}

}  // namespace dptrain
