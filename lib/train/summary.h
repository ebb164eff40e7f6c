#pragma once

#include <string>

#include "train/experiment.h"
#include "train/trainer.h"

namespace dptrain::train {

/// The machine and the program that ran an experiment.
struct Environment {
  std::string version;  ///< of dptrain
  std::string commit;
  std::vector<std::string> libraries;  ///< "oneDNN 2.6.3"
  /// Of each process that trains, by number: what process_record says there.
  std::vector<std::string> processes = {};
};

/// What summary.json says of this process: its host, what it computes on, and how much of the data set it has read and
/// holds. A JSON object.
std::string process_record(const Experiment& experiment, const Datasets& data);

/// The text of summary.json.
std::string summary_json(const Experiment& experiment, const TrainingOutcome& outcome, int exit_code,
                         const Environment& environment, const std::string& resolved_config);

}  // namespace dptrain::train
