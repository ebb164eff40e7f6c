#pragma once

#include <string>
#include <vector>

#include "train/reported_run.h"

namespace dptrain::train {

/// The report's title as text: "5 runs of lenet on mnist".
std::string report_title(const std::vector<ReportedRun>& runs);

/// The title, the runs' progress and differences, what was left out, and the outstanding runs, as HTML.
std::string report_beginning(const RunTable& table, const std::vector<ReportedRun>& runs);

/// The columns of `dptrain table` as HTML, with links to the runs. Run names are left out if they equal the names of
/// the directories.
std::string report_table(const RunTable& table, const std::vector<ReportedRun>& runs);

}  // namespace dptrain::train
