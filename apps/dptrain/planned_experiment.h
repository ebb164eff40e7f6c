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

/// The experiment as a plan reads it.
struct PlannedExperiment {
  train::Experiment experiment;
  const plan::DeviceFigures* figures = nullptr;  ///< null where they aren't known
  std::vector<int> devices_of_hosts;             ///< how many each has
  std::string devices;                           ///< as they were asked for
  bool on_workers_here = false;                  ///< all are CPU workers of this machine
  /// Nothing where the figures aren't known.
  std::optional<plan::OperatorEstimates> estimates = {};
  std::optional<plan::SharedCores> cores = {};  ///< that CPU workers share, as far as they are known

  int world_size() const { return std::accumulate(devices_of_hosts.begin(), devices_of_hosts.end(), 0); }
};

/// Of the devices and links that the flags name. Throws 78 for mistakes, and 71 where a device of a list isn't there,
/// unless it is for a plan of the `model_alone`.
PlannedExperiment read_planned(const ConfigFlags& flags, const plan::LinksFile& links, bool model_alone = false);

/// That of a run, on the devices that it had. Throws 78 for a run whose devices a plan isn't made for.
PlannedExperiment read_planned_run(const std::string& run, const plan::MeasuredStep& measured);

/// Throws 78 for what a plan can't tell of; `where` begins the message.
void require_plannable(const train::Experiment& experiment, const std::string& where);

/// Sets what operators take: by `file`, which dptrain bench ops has printed, where it isn't empty. Throws as
/// plan::read_measured_operators does.
void estimate_operators(PlannedExperiment& planned, const std::string& file);

}  // namespace dptrain::app
