#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "train/comparison_plan.h"
#include "train/epoch_recorder.h"
#include "train/run_directory.h"
#include "train/run_figures.h"
#include "train/summary.h"
#include "train/trainer.h"

namespace dptrain::train {

/// Makes the observer of one training of a comparison. The observer is destroyed before the next training begins.
using WatchTraining = std::function<std::unique_ptr<TrainingObserver>(const PlannedTraining&)>;

/// A training of a comparison that has failed.
struct FailedTraining {
  const PlannedTraining& training;
  const Error& error;
  int64_t step = 0;         ///< the step in which it failed
  int64_t checkpoint = -1;  ///< the step of its last checkpoint; -1 if it has none
};

/// Trains the runs of a plan one after the other, in this process and each in its own run directory. It trains all runs
/// with one seed and then all runs with the next seed, so that a machine that becomes slower affects all runs alike.
class Comparison {
 public:
  struct Options {
    EarlierRun earlier = EarlierRun::refuse;  ///< what to do with results in the runs' directories
    /// The folder of the comparison. `overwrite` replaces the earlier comparison that its compare.json describes, and
    /// also removes runs that this comparison doesn't have. If empty, nothing is replaced.
    std::filesystem::path out = {};
    Environment environment = {};
    /// Returns the text of the training's fault.json; if empty, none is written.
    std::function<std::string(const FailedTraining&)> describe_failure = {};
    /// Called after `describe_failure` and before the process ends, if a rank has failed inside `run` and another
    /// rank's thread hangs.
    std::function<void()> on_hung = {};
    /// Called for damaged checkpoints that trainings were to begin from; without it they are refused.
    DamageReport report_damage = {};
  };
  /// Checks what can be checked before the first training, and locks all directories. Throws 74 if a directory has
  /// results or is in use, 64 if it would remove the weights that a training begins from, and whatever opening the data
  /// or the devices throws.
  Comparison(const ComparisonPlan& plan, const Options& options);

  /// Trains all runs. Returns the signal that stopped it after the current step, or 0. Throws what a training throws,
  /// with the same code and with the run's name before the sentence. In any case figures() has what has been measured.
  int run(const WatchTraining& watch, const StopSignal& stop);

  /// Figures in the order of the plan, without runs that have no whole epoch yet.
  std::vector<RunFigures> figures() const;
  /// What was not trained to its end: "ddp was stopped in step 592", "fsdp was not trained". Empty once all runs are.
  std::vector<std::string> unfinished() const;

 private:
  void hold_stale_runs();
  void find_initial_weights(const PlannedRun& run);
  int train(size_t run, size_t repetition, const WatchTraining& watch, const StopSignal& stop);
  void write_fault(const PlannedTraining& planned, RunDirectory& directory, const EpochRecorder& recorder,
                   const Error& error) const;
  int train_watched(size_t run, const PlannedTraining& planned, RunDirectory& directory, EpochRecorder& recorder,
                    const StopSignal& stop);

  const ComparisonPlan& plan_;
  Options options_;
  std::vector<std::vector<std::unique_ptr<RunDirectory>>> directories_;  ///< by run and repetition
  std::vector<std::unique_ptr<RunDirectory>> stale_;                     ///< that only an earlier comparison had
  std::vector<RunFigures> figures_;                                      ///< by run
  size_t trained_ = 0;        ///< trainings that have ended as planned, in the order of `run`
  int64_t last_step_ = 0;     ///< that the one after these has reached
  std::string failure_ = {};  ///< why that one has failed; "": it hasn't
  /// Files of the weights to begin from, by the path that the user named.
  std::map<std::filesystem::path, std::filesystem::path> weights_;
};

}  // namespace dptrain::train
