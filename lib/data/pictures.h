#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "data/picture.h"

namespace dptrain {

/// The shape that images are brought to.
struct PictureForm {
  Shape shape = {};  ///< [C, H, W]
  /// Whether pictures of any size are scaled to the shape (picture_scaling.h), which must be square; otherwise pictures
  /// must have it already.
  bool scales = false;
};

/// Writes an image to `out` in this form. A gray image becomes one of three channels by repetition. Throws 65, naming
/// the file, both shapes and what to do, for an image of another shape.
void copy_as(const PictureForm& form, const Picture& picture, const std::filesystem::path& file,
             std::span<uint8_t> out);

/// Reads images from files as bytes [files, C, H, W] in this form, with one decoding thread per core. Throws like
/// `read_picture` and `copy_as`, for the first file that is refused.
std::vector<uint8_t> read_pictures(std::span<const std::filesystem::path> files, const PictureForm& form);

}  // namespace dptrain
