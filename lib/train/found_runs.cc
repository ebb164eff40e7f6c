#include "train/found_runs.h"

#include <set>
#include <utility>

namespace dptrain::train {

FoundRuns read_runs(const std::vector<std::filesystem::path>& paths, const std::function<void(const RunState&)>& look) {
  FoundRuns found;
  ExitCode code{};
  std::vector<std::string> reasons;
  const auto try_to = [&](const auto& read) {
    try {
      read();
    } catch (const Error& error) {
      if (reasons.empty()) code = error.code();
      reasons.insert(reasons.end(), error.lines().begin(), error.lines().end());
    }
  };
  std::set<std::filesystem::path> shown;
  for (const auto& path : paths) {
    std::vector<std::filesystem::path> directories;
    try_to([&] { directories = find_runs(path); });
    for (const auto& directory : directories) {
      // Each directory counts once, even if several paths name it.
      std::error_code unreadable;
      if (!shown.insert(std::filesystem::weakly_canonical(directory, unreadable)).second) continue;
      try_to([&] {
        RunState run = read_run_state(directory);
        if (look) look(run);
        found.runs.push_back(std::move(run));
      });
    }
  }
  if (!reasons.empty()) found.left_out.emplace(code, std::move(reasons));
  return found;
}

std::vector<std::string> labels_of(const std::vector<RunState>& runs) {
  std::vector<std::string> labels, longer;
  for (const RunState& run : runs) {
    labels.push_back(run.directory.filename().string());
    longer.push_back((run.directory.parent_path().filename() / run.directory.filename()).string());
  }
  return std::set(labels.begin(), labels.end()).size() == labels.size() ? labels : longer;
}

}  // namespace dptrain::train
