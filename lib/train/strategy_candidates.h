#pragma once

#include <optional>
#include <string>
#include <vector>

#include "config/config_node.h"
#include "data/dataset.h"
#include "train/experiment.h"
#include "train/strategy_choice.h"

namespace dptrain::train {

/// A strategy that `strategy: auto` may choose: its trial, and the experiment under it as if the configuration named
/// the strategy. If the strategy can't be tried, the trial has the reason and the experiment is empty.
struct StrategyCandidate {
  StrategyTrial trial;
  Experiment experiment = {};

  bool is_to_be_tried() const { return trial.reason.empty(); }
};

/// The split in a configuration, on one line of YAML; nothing if the configuration has the default.
std::optional<std::string> written_split(const ConfigNode& config);

/// The experiment in `config` under another strategy and split, both in the configuration's form. Throws 78 if they
/// don't fit the experiment.
Experiment experiment_under(const ConfigNode& config, const Experiment& written, const std::string& strategy,
                            const std::string& split);

/// The candidates for an experiment that `config` describes, in order of preference. They are the ones that `config`
/// lists, else the library's, which depend on the number of devices; for one device that is only `single`. A bucket
/// size is left out if it makes the same buckets as an earlier one.
///
/// A choice never changes what is computed. So compressed gradients aren't tried, and neither are pipelines of nets
/// with batch norms, whose statistics would be those of micro-batches. Updates that the next step makes aren't tried
/// either, because trials time single steps.
std::vector<StrategyCandidate> strategy_candidates(const ConfigNode& config, const Experiment& written,
                                                   const Dataset& data);

}  // namespace dptrain::train
