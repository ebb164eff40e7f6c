#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "train/experiment.h"
#include "train/stop_signal.h"

namespace dptrain::train {

/// What the first steps of a training came to.
struct FirstSteps {
  struct Step {
    double learning_rate = 0;
    int64_t samples = 0;
    double loss = 0;  ///< the mean over samples, summed over the model's outputs
  };
  struct Device {
    std::string name;  ///< "cpu:0"
    int64_t peak_bytes = 0;
  };
  std::vector<Step> steps;
  CommCounts sent;              ///< in all of them, by all ranks
  std::vector<Device> devices;  ///< by rank
  std::string weights_hash;     ///< behind them
};

struct FirstStepsOptions {
  int64_t steps = 1;
  int nudge_roundings = 0;           ///< that weights begin off; see nudge_weights
  const StopSignal* stop = nullptr;  ///< ends them before the next step
};

/// Trains the first steps of an experiment from the beginning, each of them waited for, so that what devices hold
/// depends on nothing but the experiment. Short batches at an epoch's end are left out. Throws as a training does, but
/// not where it diverges.
FirstSteps train_first_steps(const Experiment& experiment, const Datasets& data, const FirstStepsOptions& options);

}  // namespace dptrain::train
