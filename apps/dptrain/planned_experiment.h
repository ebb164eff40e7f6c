#pragma once

#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "config_flags.h"
#include "plan/calibration.h"
#include "plan/links_file.h"
#include "plan/operator_estimates.h"
#include "train/experiment.h"

namespace dptrain::app {

/// An experiment together with what a plan knows about its devices.
struct PlannedExperiment {
  train::Experiment experiment;
  const plan::DeviceFigures* figures = nullptr;  ///< null if they aren't known
  std::vector<int> devices_of_hosts;             ///< the number of devices of each host
  std::string devices;                           ///< as the user named them
  bool on_workers_here = false;                  ///< all devices are CPU workers of this machine
  /// Nothing if the figures aren't known.
  std::optional<plan::OperatorEstimates> estimates = {};
  std::optional<plan::SharedCores> cores = {};  ///< that CPU workers share, if they are known

  int world_size() const { return std::accumulate(devices_of_hosts.begin(), devices_of_hosts.end(), 0); }
};

/// Reads an experiment on the devices and links that the flags name. Throws 78 for mistakes, and 71 if a listed device
/// is missing, except for a plan of the `model_alone`.
PlannedExperiment read_planned(const ConfigFlags& flags, const plan::LinksFile& links, bool model_alone = false);

/// Reads the experiment of an earlier run, on the devices that the run had. Throws 78 if a plan can't be made for those
/// devices.
PlannedExperiment read_planned_run(const std::string& run, const plan::MeasuredStep& measured);

/// Throws 78 for an experiment that a plan can't describe; `where` begins the message.
void require_plannable(const train::Experiment& experiment, const std::string& where);

/// Sets the operator estimates. If `file` isn't empty they use its measurements, which dptrain bench ops has printed.
/// Throws as plan::read_measured_operators does.
void estimate_operators(PlannedExperiment& planned, const std::string& file);

}  // namespace dptrain::app
