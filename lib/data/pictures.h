#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "data/picture.h"

namespace dptrain {

/// The PNG and JPEG files in a folder, told by their names, sorted by them; hidden ones and what isn't an image are
/// passed over. Throws 66 for a folder without any, 74 for one that can't be read, and 65 for one that has an image of
/// another format too, or a link to an image that isn't there: nobody would see it missing.
std::vector<std::filesystem::path> picture_files_of(const std::filesystem::path& folder);

/// Ends in .png, or in .jpg, .jpeg, .jpe or .jfif.
bool has_picture_name(const std::filesystem::path& path);

/// What images are brought to.
struct PictureForm {
  Shape shape = {};  ///< [C, H, W]
  /// Pictures of any size are scaled to it (picture_scaling.h), which has equal sides; else they are to have it.
  bool scales = false;
};

/// Writes an image to `out` in this form: a gray one becomes one of three channels by repeating. Throws 65, naming the
/// file, both shapes and what to do, for one of another shape.
void copy_as(const PictureForm& form, const Picture& picture, const std::filesystem::path& file,
             std::span<uint8_t> out);

/// The images in files as bytes [files, C, H, W] in this form; several are decoded at once, by as many threads as there
/// are cores. Throws as `read_picture` and `copy_as` do, for the first of the files that is refused.
std::vector<uint8_t> read_pictures(std::span<const std::filesystem::path> files, const PictureForm& form);

}  // namespace dptrain
