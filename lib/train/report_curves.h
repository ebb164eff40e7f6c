#pragma once

#include <string>
#include <vector>

#include "train/reported_run.h"

namespace dptrain::train {

/// The part of a report that has the curves: loss, accuracy and learning rate over epochs, loss and accuracy over
/// training seconds, and when each run came to which accuracy. HTML; a sentence where no run has an epoch.
std::string report_curves(const std::vector<ReportedRun>& runs);

}  // namespace dptrain::train
