#pragma once

#include <filesystem>

#include "plan/device_figures.h"
#include "plan/step_times.h"

namespace dptrain::plan {

/// What a step of a run took, from its last whole epoch.
struct MeasuredStep {
  double compute_s = 0;  ///< the optimizer's time included; the mean over the devices
  double step_s = 0;
};

/// Reads metrics.jsonl of a run directory. Throws 66 where it isn't there, 65 where it has no epoch or isn't a run's.
MeasuredStep read_measured_step(const std::filesystem::path& run);

/// The calibration with which the plan of the same run takes as long as was measured, to compute and in all. What is
/// left beside computing and calls (loading data, ranks that wait for a slower one) is taken to be the same in other
/// plans.
Calibration calibrated(const MeasuredStep& measured, const StepTimesRequest& of_run);

}  // namespace dptrain::plan
