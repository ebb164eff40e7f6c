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

/// Makes what watches one training of a comparison; it is gone before the next begins.
using WatchTraining = std::function<std::unique_ptr<TrainingObserver>(const PlannedTraining&)>;

/// A training of a comparison that has failed.
struct FailedTraining {
  const PlannedTraining& training;
  const Error& error;
  int64_t step = 0;         ///< that it was in
  int64_t checkpoint = -1;  ///< the last one's step; -1 where it has none
};

/// Trains the runs of a plan one after the other, in this process and each in its own run directory. Repetitions go in
/// turns, all runs with one seed and then all with the next, so that a machine that grows slower is so for all.
class Comparison {
 public:
  struct Options {
    EarlierRun earlier = EarlierRun::refuse;  ///< what to do with results in the runs' directories
    /// The folder of the comparison. `overwrite` replaces the one that its compare.json speaks of: runs that this one
    /// hasn't are removed, too. Empty: none is.
    std::filesystem::path out = {};
    Environment environment = {};
    /// The text of its fault.json; empty: none is written.
    std::function<std::string(const FailedTraining&)> describe_failure = {};
    /// Called after that before the process ends in the midst of `run`: a rank of the training has failed, and another
    /// one's thread hangs.
    std::function<void()> on_hung = {};
    DamageReport report_damage = {};  ///< of checkpoints that trainings were to begin from; without it they are refused
  };
  /// Checks what can be checked before the first training, and holds all directories: throws 74 where one has results
  /// or is in use, 64 where it would remove the weights that a training begins from, and what opening the data or the
  /// devices throws.
  Comparison(const ComparisonPlan& plan, const Options& options);

  /// Returns the signal that ended it after the step in hand, or 0. Throws what a training throws, with its code and
  /// the run's name before its sentence. Either way figures() are those of what has been measured.
  int run(const WatchTraining& watch, const StopSignal& stop);

  /// In the order of the plan, without runs that have no whole epoch yet.
  std::vector<RunFigures> figures() const;

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
  std::vector<std::unique_ptr<RunDirectory>> stale_;                     ///< of an earlier comparison alone
  std::vector<RunFigures> figures_;                                      ///< by run
  std::map<std::filesystem::path, std::filesystem::path> weights_;       ///< files of those to begin from, as named
};

}  // namespace dptrain::train
