#include "data/dataset_folders.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/installation.h"

namespace dptrain {

std::vector<std::filesystem::path> dataset_roots() { return {DPTRAIN_SOURCE_DATASETS, installed_data() / "datasets"}; }

std::vector<std::filesystem::path> in_dataset_roots(const std::string& folder) {
  std::vector<std::filesystem::path> folders;
  for (const auto& root : dataset_roots()) folders.push_back(root / folder);
  return folders;
}

std::filesystem::path find_dataset_folder(const std::string& name, const std::vector<std::filesystem::path>& folders,
                                          bool (*has_files)(const std::filesystem::path&), const std::string& advice) {
  std::string looked_at;
  for (const auto& folder : folders) {
    if (has_files(folder)) return folder;
    looked_at += (looked_at.empty() ? "" : ", ") + folder.string();
  }
  throw Error(ExitCode::missing_file, Mistake{.where = name,
                                              .expected = fmt::format("expected its files in one of {}", looked_at),
                                              .got = "none",
                                              .advice = advice});
}

}  // namespace dptrain
