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
  /// What was left out and why, a sentence each, with the exit code of the first; none where all could be read.
  std::optional<Error> left_out;
};

/// The run directories that are meant by at least one path, see find_runs, each once. What is none or can't be read is
/// left out, as is a run that `look`, which is shown each, throws Error for.
FoundRuns read_runs(const std::vector<std::filesystem::path>& paths,
                    const std::function<void(const RunState&)>& look = {});

/// The names of the directories; with that of the folder they lie in, where two are called alike.
std::vector<std::string> labels_of(const std::vector<RunState>& runs);

}  // namespace dptrain::train
