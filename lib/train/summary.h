#pragma once

#include <string>

#include "train/experiment.h"
#include "train/trainer.h"

namespace dptrain::train {

/// The program and the machines that ran an experiment.
struct Environment {
  std::string version;  ///< of dptrain
  std::string commit;
  std::vector<std::string> libraries;  ///< "oneDNN 2.6.3"
  /// The process_record of each process that trains, by number.
  std::vector<std::string> processes = {};
};

/// This process's part of summary.json, a JSON object: its host, what it computes on, and how much of the data set it
/// has read and holds.
std::string process_record(const Experiment& experiment, const Datasets& data);

/// The text of summary.json.
std::string summary_json(const Experiment& experiment, const TrainingOutcome& outcome, int exit_code,
                         const Environment& environment, const std::string& resolved_config);

}  // namespace dptrain::train
