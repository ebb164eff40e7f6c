#pragma once

#include <filesystem>
#include <vector>

#include "plan/device_figures.h"
#include "plan/step_times.h"

namespace dptrain::plan {

/// What a step of a run took, read from the run's last whole epoch.
struct MeasuredStep {
  double compute_s = 0;  ///< with the optimizer's time; the mean over the devices
  double comm_s = 0;     ///< time spent waiting for communication; the mean over the devices
  double step_s = 0;
  std::vector<int> devices_of_hosts = {};  ///< the number of ranks on each host
  bool on_cpus = true;                     ///< all ranks are CPU workers
  bool process_a_host = true;              ///< each host had one process
};

/// Reads metrics.jsonl of a run directory. Throws 66 if the file is missing, 65 if it has no epoch or no run wrote it.
MeasuredStep read_measured_step(const std::filesystem::path& run);

/// Whether some call of a step is awaited only after more operators than it was started after.
bool overlaps(const PlannedStep& step);

/// The calibration with which the plan of the same run takes as long as was measured, both for computing and in all.
/// The measured time that neither computing nor calls explain (loading data, waiting for a slower rank) is assumed to
/// be the same in other plans.
///
/// For a run of several hosts the links are assumed to be free. If the request's calibration has no exchange figures,
/// the calls are assumed not to overlap: their time is what cores take for the bytes that they add up, send and
/// receive.
Calibration calibrated(const MeasuredStep& measured, const StepTimesRequest& of_run);

}  // namespace dptrain::plan
