#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "train/run_record.h"
#include "train/run_table.h"

namespace dptrain::train {

/// A page of HTML about runs, finished or running: the table of runs, curves, where time and memory go, and of each run
/// its machine and its configuration. It is one file, which refers to no other and needs no script.
class ReportPage {
 public:
  /// Of the run directories that are meant by at least one path, see find_runs, each once. What is none or can't be
  /// read is left out.
  explicit ReportPage(const std::vector<std::filesystem::path>& paths);

  size_t runs() const { return records_.size(); }
  /// What was left out and why, a sentence each, with the exit code of the first; none where all is on the page.
  const std::optional<Error>& left_out() const { return table_.left_out(); }

  /// The same for the same files. At least one run is to be there.
  std::string html() const;

 private:
  std::vector<RunRecord> records_;
  RunTable table_;  ///< of the runs that these are of
};

}  // namespace dptrain::train
