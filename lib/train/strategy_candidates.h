#pragma once

#include <optional>
#include <string>
#include <vector>

#include "config/config_node.h"
#include "data/dataset.h"
#include "train/experiment.h"
#include "train/strategy_choice.h"

namespace dptrain::train {

/// A strategy that `strategy: auto` may stand for: what becomes of it, and the experiment under it, as it is read where
/// the configuration names it. Of one that isn't to be tried the trial says why, and the experiment nothing.
struct StrategyCandidate {
  StrategyTrial trial;
  Experiment experiment = {};

  bool is_to_be_tried() const { return trial.reason.empty(); }
};

/// The split that a configuration gives, on one line of YAML; nothing where it leaves it at its default.
std::optional<std::string> written_split(const ConfigNode& config);

/// The experiment that `config` describes, under this strategy and split, each as a configuration has it. Throws 78
/// where they don't fit it.
Experiment experiment_under(const ConfigNode& config, const Experiment& written, const std::string& strategy,
                            const std::string& split);

/// The candidates of an experiment that `config` describes, in the order of preference: those that it lists, else the
/// library's, which depend on the number of devices. On one device that is `single` alone. Sizes of buckets that make
/// the same buckets as one before them are left out. What is computed is never changed by a choice: compressed
/// gradients are not tried, nor pipelines of nets with batch norms, whose statistics would be of micro-batches. Nor are
/// updates that the next step makes, as trials time single steps.
std::vector<StrategyCandidate> strategy_candidates(const ConfigNode& config, const Experiment& written,
                                                   const Dataset& data);

}  // namespace dptrain::train
