#pragma once

#include <filesystem>
#include <vector>

namespace dptrain {

/// Where the project's own data sets lie, a folder each: `datasets/` of the source tree that this was built in, then of
/// the installation.
std::vector<std::filesystem::path> dataset_roots();

}  // namespace dptrain
