#pragma once

#include <filesystem>
#include <vector>

namespace dptrain {

/// Returns the PNG and JPEG files in a folder, recognized by their names and sorted by name. Hidden files and files
/// that aren't images are skipped. Throws 66 for a folder without pictures, and 74 for one that can't be read. Throws
/// 65 if the folder also has an image of another format or a link to a missing image, because nobody would notice that
/// it is left out.
std::vector<std::filesystem::path> picture_files_of(const std::filesystem::path& folder);
/// Returns the pictures in a folder and in all folders below it, sorted by path. Hidden folders are skipped, too.
std::vector<std::filesystem::path> picture_files_below(const std::filesystem::path& folder);

/// Whether the name ends in .png, .jpg, .jpeg, .jpe or .jfif.
bool has_picture_name(const std::filesystem::path& path);

}  // namespace dptrain
