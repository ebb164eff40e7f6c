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

/// A pass in a line of metrics.jsonl.
struct PassRecord {
  double loss = 0;
  double accuracy = 0;
};

/// A line of metrics.jsonl.
struct EpochRecord {
  PassRecord train;
  std::optional<PassRecord> validation, test;
  double seconds = 0;  ///< of training, from the run's beginning to the epoch's end
  EpochMetrics cost;   ///< everything except losses and accuracies
};

/// The contents of fault.json.
struct FaultNote {
  int exit = 0;
  std::string cause;   ///< one sentence
  std::string resume;  ///< the command that resumes the training
};

/// The contents of summary.json that RunState doesn't have.
struct RunEnding {
  bool stopped_early = false;
  std::optional<int64_t> best_epoch;  ///< set if there was a validation
  /// Facts about the program and the machines, by name.
  std::vector<std::pair<std::string, std::string>> environment;
  std::optional<StrategyChoice> choice;  ///< of `strategy: auto`
};

/// Everything that a report shows of a run.
struct RunRecord {
  std::string config;  ///< the text of config.yaml
  std::vector<EpochRecord> epochs;
  std::optional<RunEnding> ending;  ///< none before summary.json is written
  std::optional<FaultNote> fault;
};

/// Reads the files of `run` again, and the record of its failure. Epochs that were added after `run` was read are left
/// out. Throws 74 if a file can't be read, 65 for a file that no run wrote.
RunRecord read_run_record(const RunState& run);

}  // namespace dptrain::train
