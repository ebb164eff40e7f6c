#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "config/config_node.h"

namespace dptrain::train {

/// Whether a run has written its configuration to this folder.
bool is_run_directory(const std::filesystem::path& folder);

/// The run directories that `path` means, sorted by name: itself, or those in it and in its folders. Throws 66 if there
/// are none.
std::vector<std::filesystem::path> find_runs(const std::filesystem::path& path);

/// Advice for a run that wasn't found: "name for instance runs/lenet", with a run that is in runs, or that there are
/// none.
std::string advice_on_runs();

/// The state of a run, finished or not, as its directory shows it.
struct RunState {
  std::filesystem::path directory;
  ConfigNode config;
  std::optional<int> exit;  ///< none before its summary is written: the run goes on, was killed, or has failed
  bool has_failed = false;  ///< it has left a fault record, which its next start removes
  bool is_running = false;  ///< a process of this host is writing it; false if that isn't known
  int64_t epochs = 0;
  int64_t steps = 0;
  double seconds = 0;  ///< of training, over all epochs
  std::optional<double> train_loss, test_loss, accuracy;
  /// Of the best epoch, if there is a validation; the test results are then from the same epoch.
  std::optional<double> validation_loss, validation_accuracy;
  std::string weights_hash;

  /// "finished", "stopped", "failed", "running", or "unfinished": killed, or running where nobody here can see it.
  const char* state() const;
};

/// Reads config.yaml, metrics.jsonl and summary.json, and looks for fault records. Half a line at the end of
/// metrics.jsonl is skipped, because the run may just be writing it. Throws 74 if a file can't be read, 65 for a file
/// that no run wrote.
RunState read_run_state(const std::filesystem::path& directory);

}  // namespace dptrain::train
