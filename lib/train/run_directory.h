#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "nn/model.h"

namespace dptrain::train {

/// Where a run writes. Held by one process at a time; a directory that has metrics is never touched unless asked to.
class RunDirectory {
 public:
  /// Creates and locks the directory. Throws 74 where it has metrics, a summary or checkpoints and `overwrite` is not
  /// set (naming --overwrite), where another process uses it, or where it can't be written. With `overwrite` the files
  /// of the run before are removed, and only those.
  RunDirectory(const std::filesystem::path& path, bool overwrite);
  ~RunDirectory();
  RunDirectory(const RunDirectory&) = delete;
  RunDirectory& operator=(const RunDirectory&) = delete;

  const std::filesystem::path& path() const { return path_; }

  // Each throws 74 where it can't be written. Files appear whole, lines are appended whole.

  void write_config(const std::string& yaml);
  void append_metrics(const std::string& line);
  void append_step(const std::string& line);
  void write_summary(const std::string& json);
  /// Writes checkpoints/step-NNNNNN/model.safetensors, and returns its path.
  std::filesystem::path write_weights(int64_t step, const std::vector<nn::NamedValues>& tensors);

 private:
  std::filesystem::path path_;
  int lock_ = -1;
};

/// The model.safetensors that `path` names: the file itself, a checkpoint's folder, or a run directory, whose newest
/// checkpoint counts. Throws 66, saying what was looked for.
std::filesystem::path find_weights(const std::filesystem::path& path);

}  // namespace dptrain::train
