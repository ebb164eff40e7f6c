#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace dptrain {

/// The folders that hold the project's own data sets, each in a folder of its own: `datasets/` of the source tree that
/// this was built in, then `datasets/` of the installation.
std::vector<std::filesystem::path> dataset_roots();

/// `folder` in each of the roots.
std::vector<std::filesystem::path> in_dataset_roots(const std::string& folder);

/// The first of `folders` that has files of the data set `name`, as `has_files` says. Throws 66 with `advice` if none
/// has.
std::filesystem::path find_dataset_folder(const std::string& name, const std::vector<std::filesystem::path>& folders,
                                          bool (*has_files)(const std::filesystem::path&), const std::string& advice);

}  // namespace dptrain
