#pragma once

#include <filesystem>
#include <vector>

namespace dptrain::train {

/// The run directories in `out` that its compare.json lists: one for each run, or one for each of its seeds. They may
/// no longer exist. Empty if there is no such file, or if no comparison wrote it.
std::vector<std::filesystem::path> runs_of_earlier_comparison(const std::filesystem::path& out);

/// Throws 74 if `out` has the report of an earlier comparison.
void refuse_earlier_comparison(const std::filesystem::path& out);

/// Removes compare.json and compare.md from `out`, because they describe runs that are about to be replaced. Throws 74.
void remove_earlier_comparison(const std::filesystem::path& out);

}  // namespace dptrain::train
