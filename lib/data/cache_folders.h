#pragma once

#include <filesystem>
#include <vector>

namespace dptrain {

/// Where what was found out about a file is kept for the next start, in the order in which they are tried: the file's
/// own folder; where that can't be written, dptrain/ in the user's cache, $XDG_CACHE_HOME or else ~/.cache.
std::vector<std::filesystem::path> cache_folders(const std::filesystem::path& file);

}  // namespace dptrain
