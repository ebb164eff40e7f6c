#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/text_table.h"
#include "train/config_difference.h"
#include "train/found_runs.h"

namespace dptrain::train {

/// A table of runs: their progress, and the configuration keys in which they differ.
class RunTable {
 public:
  /// Reads the run directories that the paths mean (see find_runs), each once. Directories that aren't runs or can't be
  /// read are left out.
  explicit RunTable(const std::vector<std::filesystem::path>& paths);
  explicit RunTable(FoundRuns found);

  bool empty() const { return runs_.empty(); }
  /// What was left out and why, one sentence each, with the exit code of the first. None if everything is in the table.
  const std::optional<Error>& left_out() const { return left_out_; }

  /// Sorts the runs by `key`; runs without a value come last. Throws 64 for any key other than:
  /// - `accuracy`, the highest first
  /// - `test_loss`, `train_loss` or `seconds`, the lowest first
  /// - with a validation, `validation_accuracy` or `validation_loss`
  /// - a key in which the runs differ, with numbers in numeric order
  void sort_by(const std::string& key);

  const std::vector<RunState>& runs() const { return runs_; }
  /// The label of each run, and the keys in which the runs differ.
  const std::vector<std::string>& labels() const { return labels_; }
  const std::vector<DifferingKey>& differences() const { return differences_; }
  std::vector<TableColumn> columns() const;

  /// The table in lines of at most `width` characters.
  std::string text(int width) const;
  std::string markdown() const;
  /// One document; docs/table.schema.json is its schema.
  std::string json() const;

 private:
  bool has_validation() const;
  /// The sort value of run `run`: lower numbers come first, and equal numbers are ordered by the text.
  std::pair<double, std::string> place_of(size_t run, const std::string& key) const;

  std::vector<RunState> runs_;
  std::optional<Error> left_out_;
  std::vector<std::string> labels_;
  std::vector<DifferingKey> differences_;
};

}  // namespace dptrain::train
