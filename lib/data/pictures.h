#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "data/picture.h"

namespace dptrain {

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
