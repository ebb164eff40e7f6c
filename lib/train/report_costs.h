#pragma once

#include <string>
#include <vector>

#include "train/reported_run.h"

namespace dptrain::train {

// The parts of a report that show the costs of runs, each as a table with a bar in each row. They return HTML; "" if no
// run has an epoch.

/// For each run: the parts of an epoch's seconds, the speed, and the bytes sent.
std::string report_times(const std::vector<ReportedRun>& runs);

/// For each run and device: the peak memory by purpose.
std::string report_memory(const std::vector<ReportedRun>& runs);

}  // namespace dptrain::train
