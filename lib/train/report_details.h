#pragma once

#include <string>

#include "train/reported_run.h"

namespace dptrain::train {

/// What a report says of one run alone, folded away: how it ended, its devices, the program and the machines, the
/// choice of `strategy: auto`, and its configuration. HTML.
std::string report_details(const ReportedRun& run);

}  // namespace dptrain::train
