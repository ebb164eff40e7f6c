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
  std::string name;  ///< of the run, where the configuration has none
  ConfigNode config;
  bool of_strategy = false;  ///< it was named by a list of strategies
};

/// One configuration under each strategy of `list`, names and maps as in YAML: "ddp,{name: ddp, overlap: false, as:
/// plain}". `as` names a run, otherwise its strategy does. Throws 78.
std::vector<ComparedConfig> configs_by_strategy(const ConfigNode& config, std::string_view list);

/// One training that a comparison will run.
struct PlannedTraining {
  Experiment experiment;
  ConfigNode source;                ///< what it was read from
  std::string config;               ///< resolved, as YAML
  std::string config_with_origins;  ///< the same with where each value came from
  std::filesystem::path directory;
};

struct PlannedRun {
  std::string name;
  std::vector<PlannedTraining> trainings;  ///< one a repetition
};

struct ComparisonPlan {
  std::vector<PlannedRun> runs;
  /// What the runs differ in beside strategy and devices.
  std::vector<DifferingKey> differences;
};

/// Reads every experiment. Each has a directory in `out` by its name; where they are repeated, one for each seed, which
/// is the configuration's, that plus 1, and so on. `single` takes the first device with all threads of the list. Throws
/// 78 for mistakes and for two runs of one name.
ComparisonPlan plan_comparison(const std::vector<ComparedConfig>& configs, const std::filesystem::path& out,
                               int64_t repetitions);

}  // namespace dptrain::train
