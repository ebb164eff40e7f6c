#pragma once

#include <filesystem>

#include "data/picture.h"

namespace dptrain {

/// Reads a PNG file (https://www.w3.org/TR/png-3/) of any kind: a palette becomes its colors, fewer or more than 8 bits
/// a channel become 8, and alpha is left out. Values are those in the file; no gamma is applied.
///
/// Throws 66 where the file is missing, and 65, naming it and the byte, where it is no PNG image or not a whole one.
/// Sides of more than kMostPicturePixels are refused (65) before any memory is taken for them.
Picture read_png(const std::filesystem::path& path);

}  // namespace dptrain
