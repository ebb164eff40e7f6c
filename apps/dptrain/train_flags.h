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

/// The flags of `dptrain train`: an experiment, and what to do with the earlier contents of its run directory.
struct TrainFlags {
  ConfigFlags common;
  bool overwrite = false;
  bool resume = false;
  std::string checkpoint;  ///< to resume from; by default the run directory's newest
  std::optional<train::TracedSteps> traced;
  std::vector<parallel::InjectedFault> faults;  ///< that the training is to suffer

  /// Whether the training continues the run that is in `out`. If it goes on from another run's checkpoint, it uses
  /// nothing of the run in `out`.
  bool goes_on_in(const std::filesystem::path& out) const;
  /// What to do with an earlier run in `out`. Throws 64 if the flags ask both to resume and to overwrite it.
  train::EarlierRun earlier_run(const std::filesystem::path& out) const;
  /// The same for a failure before the training begins: an earlier run that was to be replaced then still counts as
  /// another run's.
  train::EarlierRun before_training(const std::filesystem::path& out) const;
  /// The checkpoint to go on from: the one that was named, else the newest in the run directory, if there is one.
  /// Throws as reading a checkpoint does.
  std::optional<train::ResumePoint> resume_point(const std::filesystem::path& out) const;
};

/// Parses "10", a number of steps, or "100-109", a range of steps. Throws 64.
train::TracedSteps traced_steps(const std::string& text);

/// Replaces every "{hash}" in `out` by the first 16 digits of the resolved configuration's hash, so that sweeps can
/// name runs. Throws 64 for any other word in braces, because all runs of a sweep would then share one name.
std::filesystem::path run_directory(std::string out, const std::string& config);

}  // namespace dptrain::app
