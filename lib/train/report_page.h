#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "train/run_record.h"
#include "train/run_table.h"

namespace dptrain::train {

/// An HTML page about runs, finished or running: their table, their curves, their time and memory, and the machine and
/// configuration of each. The page is one file that refers to no other file and needs no script.
class ReportPage {
 public:
  /// Reads the run directories that the paths mean (see find_runs), each once. Directories that aren't runs or can't be
  /// read are left out.
  explicit ReportPage(const std::vector<std::filesystem::path>& paths);

  size_t runs() const { return records_.size(); }
  /// What was left out and why, one sentence each, with the exit code of the first. None if everything is on the page.
  const std::optional<Error>& left_out() const { return table_.left_out(); }

  /// The page's text, which depends only on the files. At least one run must have been read.
  std::string html() const;

 private:
  std::vector<RunRecord> records_;
  RunTable table_;  ///< of the same runs as `records_`
};

}  // namespace dptrain::train
