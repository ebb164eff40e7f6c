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
};

/// The text of summary.json.
std::string summary_json(const Experiment& experiment, const TrainingOutcome& outcome, int exit_code,
                         const Environment& environment, const std::string& resolved_config);

}  // namespace dptrain::train
