#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "data/batch_loader.h"
#include "train/experiment.h"
#include "train/strategy_choice.h"
#include "train/whole_batches.h"

namespace dptrain::train {

/// Steps after which a training run is warm: GPUs record the second step of a size, and replay it from the third on.
inline constexpr int kWarmUpSteps = 2;

/// The costs of one candidate's timed steps, over all its trials.
struct TrialCosts {
  std::vector<double> step_seconds = {};
  double communication_s = 0;  ///< exposed, the mean over ranks
  int64_t bytes = 0;           ///< sent, summed over ranks
  int64_t peak_bytes = 0;      ///< of the device that held most, including warm-up steps

  /// `samples`: per step. There must be at least one timed step.
  TrialFigures figures(int64_t samples) const;
};

/// Trains the first steps of an experiment from the beginning, as Trainer does, and waits for each step to end. Short
/// batches at an epoch's end are left out. Weights are always drawn at random, even if the experiment loads a file,
/// because their values don't affect the time.
class TrialTraining {
 public:
  /// Throws as Trainer does.
  TrialTraining(const Experiment& experiment, const Datasets& data);

  /// Trains a step and returns its seconds, without loading its batch.
  double train_step();
  /// Adds the costs of the steps since the last call; for warm-up steps, only their memory.
  void count_costs(TrialCosts& costs, bool warming_up);

 private:
  std::unique_ptr<parallel::Strategy> strategy_;
  std::unique_ptr<BatchLoader> loader_;
  std::optional<WholeBatches> batches_;
  std::optional<optim::Schedule> schedule_;
  int64_t step_ = 0;
};

}  // namespace dptrain::train
