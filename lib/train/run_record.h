#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "train/metrics.h"
#include "train/run_state.h"
#include "train/strategy_choice.h"

namespace dptrain::train {

/// What a line of metrics.jsonl says of a pass.
struct PassRecord {
  double loss = 0;
  double accuracy = 0;
};

/// And of an epoch.
struct EpochRecord {
  PassRecord train;
  std::optional<PassRecord> validation, test;
  double seconds = 0;  ///< of training, from the run's beginning to the epoch's end
  EpochMetrics cost;   ///< all but the losses and accuracies
};

/// What fault.json says.
struct FaultNote {
  int exit = 0;
  std::string cause;   ///< one sentence
  std::string resume;  ///< the command that goes on
};

/// What summary.json says beside what a RunState has.
struct RunEnding {
  bool stopped_early = false;
  std::optional<int64_t> best_epoch;  ///< where there was a validation
  /// The program and the machines, by the name of each fact.
  std::vector<std::pair<std::string, std::string>> environment;
  std::optional<StrategyChoice> choice;  ///< of `strategy: auto`
};

/// All that a report tells of a run.
struct RunRecord {
  std::string config;  ///< the text of config.yaml
  std::vector<EpochRecord> epochs;
  std::optional<RunEnding> ending;  ///< none before summary.json was written
  std::optional<FaultNote> fault;
};

/// Reads the files that `run` was read from once more, and the record of its failure; epochs that have come since then
/// are left out. Throws 74 where a file can't be read, 65 for one that no run wrote.
RunRecord read_run_record(const RunState& run);

}  // namespace dptrain::train
