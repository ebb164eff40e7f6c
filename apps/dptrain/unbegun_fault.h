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

/// Reads the run from the command line and the configuration, before the process has joined its job; `earlier` is left
/// at its default. Throws if the flags or the configuration are refused, and if the directory is only known in a joined
/// job.
ExpectedRun expected_run(const ConfigFlags& flags);

/// Writes fault.json for a job that failed before its training began. Writes only if the run directory is absent, is
/// free and without results, or has the run that the job resumes: any other directory may be another run's. Ignores
/// write errors, because the failure itself is more important.
void write_unbegun_fault(const ExpectedRun& run, const JobFailure& failure, const JobProcess& root,
                         const std::vector<train::FaultRecord::Operation>& operations) noexcept;

}  // namespace dptrain::app
