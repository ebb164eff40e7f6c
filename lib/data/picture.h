#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "tensor/shape.h"

namespace dptrain {

/// An image as bytes.
struct Picture {
  Shape shape = {};                  ///< [1, H, W] where the file is gray, else [3, H, W]: red, green, blue
  std::vector<uint8_t> pixels = {};  ///< of that shape
};

/// Larger sides are refused before any memory is taken for them.
inline constexpr uint32_t kMostPicturePixels = 4096;

/// Of the rows of an image that has the `channels` channels of a pixel side by side.
Picture picture_of_rows(const std::vector<uint8_t>& rows, const Shape& shape);

/// Throws 65, naming the file, for a side of more than kMostPicturePixels pixels.
void check_picture_side(const std::filesystem::path& file, const char* side, uint32_t pixels);

/// Reads a PNG or a JPEG file, told by how it begins. Throws 65 for another one, and as read_png and read_jpeg do.
Picture read_picture(const std::filesystem::path& path);

}  // namespace dptrain
