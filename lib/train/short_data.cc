#include "train/short_data.h"

#include <fmt/format.h>

namespace dptrain::train {

std::optional<std::string> short_data_warning(const Experiment& experiment, int64_t samples) {
  if (experiment.batch_size <= samples) return std::nullopt;
  return fmt::format(
      "batch_size: {} is more than the {} samples to train on: a step has these, and what goes by the batch size, as "
      "lr_rule does, goes by {}",
      experiment.batch_size, samples, experiment.batch_size);
}

}  // namespace dptrain::train
