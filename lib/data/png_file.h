#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "tensor/shape.h"

namespace dptrain {

/// An image as bytes.
struct PngImage {
  Shape shape = {};                  ///< [1, H, W] where the file is gray, else [3, H, W]: red, green, blue
  std::vector<uint8_t> pixels = {};  ///< of that shape
};

/// Reads a PNG file (https://www.w3.org/TR/png-3/) of any kind: a palette becomes its colors, fewer or more than 8 bits
/// a channel become 8, and alpha is left out. Values are those in the file; no gamma is applied.
///
/// Throws 66 where the file is missing, and 65, naming it and the byte, where it is no PNG image or not a whole one.
/// Sides of more than 4096 pixels are refused (65) before any memory is taken for them.
PngImage read_png(const std::filesystem::path& path);

}  // namespace dptrain
