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

/// A table of runs: the keys of their configurations in which they differ, and how far they have come.
class RunTable {
 public:
  /// Of the run directories that are meant by at least one path, see find_runs, each once. What is none or can't be
  /// read is left out.
  explicit RunTable(const std::vector<std::filesystem::path>& paths);
  explicit RunTable(FoundRuns found);

  bool empty() const { return runs_.empty(); }
  /// What was left out and why, a sentence each, with the exit code of the first; none where all is in the table.
  const std::optional<Error>& left_out() const { return left_out_; }

  /// Puts the runs in the order of `accuracy`, the highest first, of `test_loss`, `train_loss` or `seconds`, the lowest
  /// first, where there is a validation of `validation_accuracy` or `validation_loss`, or of a key in which they
  /// differ, numbers as numbers; those without a value come last. Throws 64 for anything else.
  void sort_by(const std::string& key);

  const std::vector<RunState>& runs() const { return runs_; }
  /// What each run is called, and the keys in which they differ.
  const std::vector<std::string>& labels() const { return labels_; }
  const std::vector<DifferingKey>& differences() const { return differences_; }
  std::vector<TableColumn> columns() const;

  /// In lines of at most `width` characters.
  std::string text(int width) const;
  std::string markdown() const;
  /// One document; docs/table.schema.json is its schema.
  std::string json() const;

 private:
  bool has_validation() const;
  /// What run `run` is sorted by: lower ones come first, equal ones by the text behind.
  std::pair<double, std::string> place_of(size_t run, const std::string& key) const;

  std::vector<RunState> runs_;
  std::optional<Error> left_out_;
  std::vector<std::string> labels_;
  std::vector<DifferingKey> differences_;
};

}  // namespace dptrain::train
