#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "comm/job.h"
#include "comm/job_failure.h"
#include "config_flags.h"
#include "train/fault_record.h"
#include "train/run_directory.h"

namespace dptrain::app {

/// The run that a job is to train, as one of its processes knows it before the training begins.
struct ExpectedRun {
  std::string name;
  std::filesystem::path directory;
  std::vector<std::string> start = {};  ///< see start_words
  train::EarlierRun earlier = train::EarlierRun::refuse;
};

/// What the command line and the configuration say before the process has joined its job, `earlier` apart. Throws what
/// they are refused for, and where only a joined job knows the directory.
ExpectedRun expected_run(const ConfigFlags& flags);

/// Leaves fault.json of a job that has failed before its training begins. Only where the run directory is absent, or
/// free and without results, or that of the run that the job goes on with: any other is another run's. Where it can't
/// be written nothing happens: there is something worse to tell.
void write_unbegun_fault(const ExpectedRun& run, const JobFailure& failure, const JobProcess& root,
                         const std::vector<train::FaultRecord::Operation>& operations) noexcept;

}  // namespace dptrain::app
