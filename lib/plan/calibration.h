#pragma once

#include <filesystem>

#include "plan/device_figures.h"
#include "plan/planned_step.h"

namespace dptrain::plan {

/// What a step of a run took, from its last whole epoch.
struct MeasuredStep {
  double compute_s = 0;  ///< the optimizer's time included; the mean over the devices
  double exposed_comm_s = 0;
  double other_s = 0;  ///< waiting for data included
  double step_s = 0;
};

/// Reads metrics.jsonl of a run directory. Throws 66 where it isn't there, 65 where it has no epoch or isn't a run's.
MeasuredStep read_measured_step(const std::filesystem::path& run);

/// The calibration with which `planned`, the plan of the same run, takes as long to compute as was measured.
Calibration calibrated(const MeasuredStep& measured, const PlannedStep& planned, const DeviceFigures& figures,
                       Precision precision);

}  // namespace dptrain::plan
