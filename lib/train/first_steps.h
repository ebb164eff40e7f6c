#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "train/experiment.h"
#include "train/stop_signal.h"

namespace dptrain::train {

/// The results of a training run's first steps.
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
  CommCounts sent;              ///< in all of these steps, by all ranks
  std::vector<Device> devices;  ///< by rank
  std::string weights_hash;     ///< of the weights after these steps
};

struct FirstStepsOptions {
  int64_t steps = 1;
  int nudge_roundings = 0;           ///< how many roundings the initial weights are off; see nudge_weights
  const StopSignal* stop = nullptr;  ///< stops before the next step
};

/// Trains the first steps of an experiment from the beginning. It waits for each step to end, so that the devices'
/// memory use depends only on the experiment. Short batches at an epoch's end are left out. Throws as a training run
/// does, but doesn't throw when it diverges.
FirstSteps train_first_steps(const Experiment& experiment, const Datasets& data, const FirstStepsOptions& options);

}  // namespace dptrain::train
