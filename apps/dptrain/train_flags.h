#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "config_flags.h"
#include "train/checkpoint.h"
#include "train/experiment.h"
#include "train/run_directory.h"

namespace dptrain::app {

/// What `dptrain train` is given: an experiment, and what to do with what its run directory has.
struct TrainFlags {
  ConfigFlags common;
  bool overwrite = false;
  bool resume = false;
  std::string checkpoint;  ///< to resume from; by default the run directory's newest
  std::optional<train::TracedSteps> traced;
  std::vector<parallel::InjectedFault> faults;  ///< that the training is to suffer

  /// Whether what a run has left in `out` is gone on with. What goes on from another run's checkpoint takes nothing of
  /// it.
  bool goes_on_in(const std::filesystem::path& out) const;
  /// Throws 64 where what is there is to go on and to be replaced.
  train::EarlierRun earlier_run(const std::filesystem::path& out) const;
  /// As a failure before the training finds it: what it was to replace is another run's.
  train::EarlierRun before_training(const std::filesystem::path& out) const;
  /// What to go on from: the checkpoint that was named, else the newest of the run directory, which may have none.
  /// Throws as reading it does.
  std::optional<train::ResumePoint> resume_point(const std::filesystem::path& out) const;
};

/// "10", so many steps, or "100-109", these. Throws 64.
train::TracedSteps traced_steps(const std::string& text);

/// `out` with the first 16 digits of the hash of a resolved configuration, by which sweeps call runs, for every
/// "{hash}". Throws 64 for another word in braces, which as a name would be that of all runs of a sweep.
std::filesystem::path run_directory(std::string out, const std::string& config);

}  // namespace dptrain::app
