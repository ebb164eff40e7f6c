#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "tensor/shape.h"

namespace dptrain {

/// An image as bytes.
struct Picture {
  Shape shape = {};                  ///< [1, H, W] if the file is gray, or [3, H, W]: red, green, blue
  std::vector<uint8_t> pixels = {};  ///< of that shape
};

/// The longest side of an image. Longer sides are refused before any memory is taken for them.
inline constexpr uint32_t kMostPicturePixels = 4096;

/// Makes a picture from rows in which the `channels` channels of a pixel are side by side.
Picture picture_of_rows(const std::vector<uint8_t>& rows, const Shape& shape);

/// Throws 65, naming the file, for a side of more than kMostPicturePixels pixels.
void check_picture_side(const std::filesystem::path& file, const char* side, uint32_t pixels);

/// Reads a PNG or a JPEG file, told apart by their first bytes. Throws 65 for any other file. Throws like read_png and
/// read_jpeg.
Picture read_picture(const std::filesystem::path& path);

}  // namespace dptrain
