#pragma once

#include <filesystem>
#include <vector>

namespace dptrain::train {

/// The run directories in `out` that the compare.json there speaks of: each run's own, or one for each of its seeds.
/// They may be gone by now. None where there is no such file, or one that no comparison wrote.
std::vector<std::filesystem::path> runs_of_earlier_comparison(const std::filesystem::path& out);

/// Throws 74 where `out` has what a comparison has said.
void refuse_earlier_comparison(const std::filesystem::path& out);

/// Removes compare.json and compare.md from `out`: what they say is of runs that are about to be replaced. Throws 74.
void remove_earlier_comparison(const std::filesystem::path& out);

}  // namespace dptrain::train
