#pragma once

#include <string>

#include "config/config_document.h"
#include "plan/planned_step.h"
#include "train/experiment.h"
#include "train/strategy_context.h"

namespace dptrain::testing {

/// The experiment that these lines of YAML describe.
inline train::Experiment experiment_of_lines(const std::string& lines) {
  train::Experiment experiment;
  const ConfigSession session(parse_config(lines, "test.yaml"),
                              [&](ConfigReader& reader) { experiment = train::read_experiment(reader, "test"); });
  return experiment;
}

/// Its step, on devices that compute nothing: the first of `world_size`, by default all.
inline plan::PlannedStep planned_of(const train::Experiment& experiment, const Datasets& data, int world_size = 0) {
  return plan::plan_step(
      {.context = train::strategy_context(experiment, *data.train),
       .make = experiment.strategy.make,
       .data = data.train,
       .loader = [&](parallel::Strategy& strategy) { return train::loader_options(experiment, strategy); },
       .world_size = world_size > 0 ? world_size : static_cast<int>(experiment.devices.size())});
}

}  // namespace dptrain::testing
