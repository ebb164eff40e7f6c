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

/// Steps that a training is warm after: GPUs record the second step of a size, and replay it from the third on.
inline constexpr int kWarmUpSteps = 2;

/// What the timed steps of one candidate have cost, over all its trials.
struct TrialCosts {
  std::vector<double> step_seconds = {};
  double communication_s = 0;  ///< exposed, the mean over ranks
  int64_t bytes = 0;           ///< sent, summed over ranks
  int64_t peak_bytes = 0;      ///< of the device that held most, also while it was warming up

  /// `samples`: of a step. There is to be at least one.
  TrialFigures figures(int64_t samples) const;
};

/// Trains the first steps of an experiment from the beginning, as Trainer does, each of them waited for. Short batches
/// at an epoch's end are left out. Weights begin as the model's own do, whatever file the experiment begins with: their
/// values cost no time.
class TrialTraining {
 public:
  /// Throws as Trainer does.
  TrialTraining(const Experiment& experiment, const Datasets& data);

  /// Returns its seconds, loading its batch not counted.
  double train_step();
  /// Adds what the steps since the last time have cost; of steps that warm up memory alone.
  void count_costs(TrialCosts& costs, bool warming_up);

 private:
  std::unique_ptr<parallel::Strategy> strategy_;
  std::unique_ptr<BatchLoader> loader_;
  std::optional<WholeBatches> batches_;
  std::optional<optim::Schedule> schedule_;
  int64_t step_ = 0;
};

}  // namespace dptrain::train
