#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "train/checkpoint.h"

namespace dptrain::train {

/// The differences between two resolved configurations, except in the top-level keys `except`: "learning_rate 0.1 ->
/// 0.05, ema none -> 0.99". "" if there are none.
std::string changes_between(const std::string& before, const std::string& now, const std::vector<std::string>& except);

/// The differences between a resolved configuration and the one that a checkpoint was written under, in the form of
/// changes_between; name and devices don't count. "the configuration" if the checkpoint's run no longer has its
/// configuration.
std::string changes_since(const ResumePoint& from, const std::string& config);

/// The differences from the configuration in a run's directory. Here threads don't count either, because their default
/// depends on the machine.
std::string changes_since_finished(const std::filesystem::path& run, const std::string& config);

}  // namespace dptrain::train
