#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "config/config_node.h"

namespace dptrain::train {

/// Whether a run has written its configuration there.
bool is_run_directory(const std::filesystem::path& folder);

/// The run directories that are meant by `path`: itself, or those in it and in its folders, in the order of their
/// names. Throws 66 where there is none.
std::vector<std::filesystem::path> find_runs(const std::filesystem::path& path);

/// Where what was to be found isn't: "name for instance runs/lenet", of those that are in runs, or that there are none.
std::string advice_on_runs();

/// What a run directory says of its run, whether that has ended or not.
struct RunState {
  std::filesystem::path directory;
  ConfigNode config;
  std::optional<int> exit;  ///< none before its summary was written: it is running, was killed, or has failed
  bool has_failed = false;  ///< and has left a record of that, which its next start removes
  int64_t epochs = 0;
  int64_t steps = 0;
  double seconds = 0;  ///< of training, over all epochs
  std::optional<double> train_loss, test_loss, accuracy;
  /// Of the best epoch, where there is a validation; those of the test are then of the same epoch.
  std::optional<double> validation_loss, validation_accuracy;
  std::string weights_hash;

  /// "finished", "stopped", "failed", "unfinished"
  const char* state() const;
};

/// Reads config.yaml, metrics.jsonl and summary.json, and looks for fault records; half a line at the end of
/// metrics.jsonl, which is just being written, is left out. Throws 74 where a file can't be read, 65 for one that no
/// run wrote.
RunState read_run_state(const std::filesystem::path& directory);

}  // namespace dptrain::train
