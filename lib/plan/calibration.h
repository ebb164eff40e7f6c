#pragma once

#include <filesystem>
#include <vector>

#include "plan/device_figures.h"
#include "plan/step_times.h"

namespace dptrain::plan {

/// What a step of a run took, from its last whole epoch.
struct MeasuredStep {
  double compute_s = 0;  ///< the optimizer's time included; the mean over the devices
  double comm_s = 0;     ///< waited for; the mean over the devices
  double step_s = 0;
  std::vector<int> devices_of_hosts = {};  ///< how many of its ranks each host had
  bool on_cpus = true;                     ///< all its ranks
  bool process_a_host = true;              ///< each host had one process
};

/// Reads metrics.jsonl of a run directory. Throws 66 where it isn't there, 65 where it has no epoch or isn't a run's.
MeasuredStep read_measured_step(const std::filesystem::path& run);

/// Whether some call of a step was waited for later than it was started.
bool overlaps(const PlannedStep& step);

/// The calibration with which the plan of the same run takes as long as was measured, to compute and in all. What is
/// left beside computing and calls (loading data, ranks that wait for a slower one) is taken to be the same in other
/// plans. Of a run of several hosts, whose links are taken to be free: where the request's calibration says nothing of
/// what they exchange, its calls are taken not to overlap, and their time is what cores take for the bytes that they
/// add up, send and receive.
Calibration calibrated(const MeasuredStep& measured, const StepTimesRequest& of_run);

}  // namespace dptrain::plan
