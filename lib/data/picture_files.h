#pragma once

#include <filesystem>
#include <vector>

namespace dptrain {

/// The PNG and JPEG files in a folder, told by their names, sorted by them; hidden ones and what isn't an image are
/// passed over. Throws 66 for a folder without any, 74 for one that can't be read, and 65 for one that has an image of
/// another format too, or a link to an image that isn't there: nobody would see it missing.
std::vector<std::filesystem::path> picture_files_of(const std::filesystem::path& folder);
/// The same of a folder and of all folders in it, sorted by their paths; hidden folders are passed over, too.
std::vector<std::filesystem::path> picture_files_below(const std::filesystem::path& folder);

/// Ends in .png, or in .jpg, .jpeg, .jpe or .jfif.
bool has_picture_name(const std::filesystem::path& path);

}  // namespace dptrain
