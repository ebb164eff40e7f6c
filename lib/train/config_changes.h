#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "train/checkpoint.h"

namespace dptrain::train {

/// What a configuration, resolved, says otherwise than another, but for keys `except` of the top level: "learning_rate
/// 0.1 -> 0.05, ema none -> 0.99". "" where that is nothing.
std::string changes_between(const std::string& before, const std::string& now, const std::vector<std::string>& except);

/// What a configuration, resolved, says otherwise than the one that a checkpoint was written under, but for name and
/// devices, as changes_between. "the configuration" where that one
/// isn't in the checkpoint's run any more.
std::string changes_since(const ResumePoint& from, const std::string& config);

/// The same of the configuration that a run's directory has, threads left out as well, as their default is the
/// machine's.
std::string changes_since_finished(const std::filesystem::path& run, const std::string& config);

}  // namespace dptrain::train
