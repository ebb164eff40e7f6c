#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace dptrain {

/// Where the project's own data sets lie, a folder each: `datasets/` of the source tree that this was built in, then of
/// the installation.
std::vector<std::filesystem::path> dataset_roots();

/// `folder` in each of the roots.
std::vector<std::filesystem::path> in_dataset_roots(const std::string& folder);

/// The first of `folders` that has files of the data set `name`, which `has_files` tells. Throws 66 with `advice` where
/// none has.
std::filesystem::path find_dataset_folder(const std::string& name, const std::vector<std::filesystem::path>& folders,
                                          bool (*has_files)(const std::filesystem::path&), const std::string& advice);

}  // namespace dptrain
