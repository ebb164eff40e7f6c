#pragma once

#include <functional>
#include <string>
#include <vector>

#include "config/config_document.h"
#include "plan/planned_step.h"
#include "train/experiment.h"
#include "train/strategy_context.h"

namespace dptrain::testing {

/// The experiment that these lines of YAML describe, for a single process or for a process of a job.
inline train::Experiment experiment_of_lines(const std::string& lines, const train::ConfigJob& job = {}) {
  train::Experiment experiment;
  const ConfigSession session(parse_config(lines, "test.yaml"),
                              [&](ConfigReader& reader) { experiment = train::read_experiment(reader, "test", job); });
  return experiment;
}

/// Plans the experiment's step on devices that compute nothing: the devices of the first of `processes` equal
/// processes, or of whole pipelines.
inline plan::PlannedStep planned_of(const train::Experiment& experiment, const Datasets& data, int processes = 1,
                                    const std::function<double(const OperatorCost&)>& operator_s = {}) {
  return plan::plan_step(
      {.context = train::strategy_context(experiment, *data.train),
       .make = experiment.strategy.make,
       .data = data.train,
       .loader = [&](parallel::Strategy& strategy) { return train::loader_options(experiment, strategy); },
       .operator_s = operator_s,
       .world =
           WorldShape(std::vector<int>(static_cast<size_t>(processes), static_cast<int>(experiment.devices.size())))});
}

}  // namespace dptrain::testing
