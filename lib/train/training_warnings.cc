#include "train/training_warnings.h"

#include <fmt/format.h>

namespace dptrain::train {

std::vector<std::string> training_warnings(const Experiment& experiment, int64_t samples) {
  std::vector<std::string> warnings;
  if (experiment.batch_size > samples)
    warnings.push_back(
        fmt::format("batch_size: {} is more than the {} samples to train on: a step has these, and what goes by the "
                    "batch size, as lr_rule does, goes by {}",
                    experiment.batch_size, samples, experiment.batch_size));
  const int64_t steps_per_epoch = (samples + experiment.batch_size - 1) / experiment.batch_size;
  const int64_t steps = experiment.steps.value_or(experiment.epochs.value_or(0) * steps_per_epoch);
  const int64_t warmup = experiment.schedule.warmup_of(steps_per_epoch);
  if (warmup > steps && steps > 0)
    warnings.push_back(
        fmt::format("schedule: its warm-up of {} steps is longer than the training's {}: the learning "
                    "rate ends at {:.3g} of {:.3g}",
                    warmup, steps, experiment.learning_rate * static_cast<double>(steps) / static_cast<double>(warmup),
                    experiment.learning_rate));
  return warnings;
}

}  // namespace dptrain::train
