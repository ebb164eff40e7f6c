#pragma once

#include <filesystem>
#include <vector>

namespace dptrain {

/// The folders in which facts about a file are kept for the next start, in the order in which they are tried: the
/// file's own folder; if it can't be written, dptrain/ in the user's cache, which is $XDG_CACHE_HOME or else ~/.cache.
std::vector<std::filesystem::path> cache_folders(const std::filesystem::path& file);

}  // namespace dptrain
