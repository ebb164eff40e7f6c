#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/text_table.h"
#include "train/config_difference.h"
#include "train/run_state.h"

namespace dptrain::train {

/// A table of runs: the keys of their configurations in which they differ, and how far they have come.
class RunTable {
 public:
  /// Of the run directories that are meant by at least one path, see find_runs, each once. What is none or can't be
  /// read is left out.
  explicit RunTable(const std::vector<std::filesystem::path>& paths);

  bool empty() const { return runs_.empty(); }
  /// What was left out and why, a sentence each, with the exit code of the first; none where all is in the table.
  const std::optional<Error>& left_out() const { return left_out_; }

  /// In lines of at most `width` characters.
  std::string text(int width) const;
  std::string markdown() const;
  /// One document; docs/table.schema.json is its schema.
  std::string json() const;

 private:
  std::vector<TableColumn> columns() const;

  std::vector<RunState> runs_;
  std::optional<Error> left_out_;
  std::vector<std::string> labels_;
  std::vector<DifferingKey> differences_;
};

}  // namespace dptrain::train
