#pragma once

#include <string>
#include <vector>

#include "train/reported_run.h"

namespace dptrain::train {

/// The report's curves as HTML: loss, accuracy and learning rate over epochs, loss and accuracy over training seconds,
/// and the time at which each run reached which accuracy. Only a sentence if no run has an epoch.
std::string report_curves(const std::vector<ReportedRun>& runs);

}  // namespace dptrain::train
