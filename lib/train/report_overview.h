#pragma once

#include <string>
#include <vector>

#include "train/reported_run.h"

namespace dptrain::train {

/// "5 runs of lenet on mnist"; text.
std::string report_title(const std::vector<ReportedRun>& runs);

/// The title, how far the runs have come, what they differ in, what was left out, and which of them stand out. HTML.
std::string report_beginning(const RunTable& table, const std::vector<ReportedRun>& runs);

/// The columns of `dptrain table`, with links to the runs; without the runs' names where these are what their
/// directories are called. HTML.
std::string report_table(const RunTable& table, const std::vector<ReportedRun>& runs);

}  // namespace dptrain::train
