#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "config/config_node.h"
#include "train/config_difference.h"
#include "train/experiment.h"

namespace dptrain::train {

/// A configuration that takes part in a comparison.
struct ComparedConfig {
  std::string name;  ///< the run's name if the configuration has none
  ConfigNode config;
  bool of_strategy = false;  ///< it comes from a list of strategies
};

/// One configuration under each strategy of `list`, which has names and maps as in YAML: "ddp,{name: ddp, overlap:
/// false, as: plain}". `as` names a run; by default the strategy names it. Throws 78.
std::vector<ComparedConfig> configs_by_strategy(const ConfigNode& config, std::string_view list);

/// One training that a comparison will run.
struct PlannedTraining {
  Experiment experiment;
  ConfigNode source;                ///< the configuration that it was read from
  std::string config;               ///< resolved, as YAML
  std::string config_with_origins;  ///< the same text with the origin of each value
  std::filesystem::path directory;
};

struct PlannedRun {
  std::string name;
  std::vector<PlannedTraining> trainings;  ///< one per repetition
};

struct ComparisonPlan {
  std::vector<PlannedRun> runs;
  /// The keys in which the runs differ, besides strategy and devices.
  std::vector<DifferingKey> differences;
};

/// Reads every experiment. Each run has a directory in `out`, named after the run. With several repetitions that
/// directory has one directory for each seed: the configuration's seed, that plus 1, and so on. `single` gets the first
/// device, with the threads of the whole list. Throws 78 for mistakes and if two runs have the same name.
ComparisonPlan plan_comparison(const std::vector<ComparedConfig>& configs, const std::filesystem::path& out,
                               int64_t repetitions);

}  // namespace dptrain::train
