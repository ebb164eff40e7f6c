#include "data/cache_folders.h"

#include <cstdlib>

namespace dptrain {

std::vector<std::filesystem::path> cache_folders(const std::filesystem::path& file) {
  std::vector<std::filesystem::path> folders = {file.has_parent_path() ? file.parent_path() : "."};
  const char* cache = std::getenv("XDG_CACHE_HOME");
  const char* home = std::getenv("HOME");
  // A relative path is to be ignored (XDG Base Directory Specification).
  if (cache != nullptr && std::filesystem::path(cache).is_absolute())
    folders.push_back(std::filesystem::path(cache) / "dptrain");
  else if (home != nullptr && std::filesystem::path(home).is_absolute())
    folders.push_back(std::filesystem::path(home) / ".cache" / "dptrain");
  return folders;
}

}  // namespace dptrain
