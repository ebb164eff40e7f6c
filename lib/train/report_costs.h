#pragma once

#include <string>
#include <vector>

#include "train/reported_run.h"

namespace dptrain::train {

// The parts of a report that say what runs cost, each a table with a bar in each row, in HTML; "" where no run has an
// epoch.

/// Of each run where the seconds of an epoch go, its speed and what it sends.
std::string report_times(const std::vector<ReportedRun>& runs);

/// Of each run and device the most memory in use at once, by what it holds.
std::string report_memory(const std::vector<ReportedRun>& runs);

}  // namespace dptrain::train
