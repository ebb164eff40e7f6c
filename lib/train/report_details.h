#pragma once

#include <string>

#include "train/reported_run.h"

namespace dptrain::train {

/// The folded part of a report about one run, as HTML: how the run ended, its devices, the program and the machines,
/// the choice of `strategy: auto`, and its configuration.
std::string report_details(const ReportedRun& run);

}  // namespace dptrain::train
