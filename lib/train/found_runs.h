#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "train/run_state.h"

namespace dptrain::train {

/// Runs that were looked for, in the order in which they were found.
struct FoundRuns {
  std::vector<RunState> runs;
  /// What was left out and why, one sentence each, with the exit code of the first. Nothing if all could be read.
  std::optional<Error> left_out;
};

/// Reads the run directories that the paths mean (see find_runs), each once. Directories that aren't runs or can't be
/// read are left out. `look` is called with each run, and a run for which it throws Error is left out, too.
FoundRuns read_runs(const std::vector<std::filesystem::path>& paths,
                    const std::function<void(const RunState&)>& look = {});

/// The names of the directories. If two directories have the same name, theirs also include the name of the parent
/// folder.
std::vector<std::string> labels_of(const std::vector<RunState>& runs);

}  // namespace dptrain::train
