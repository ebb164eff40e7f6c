#pragma once

#include <filesystem>

#include "data/picture.h"

namespace dptrain {

/// Reads a PNG file (https://www.w3.org/TR/png-3/) of any kind. A palette becomes its colors, channels of fewer or more
/// than 8 bits become 8 bits, and alpha is dropped. Values are those in the file; no gamma is applied.
///
/// Throws 66 if the file is missing. Throws 65, naming the file and the byte, if it is not a PNG image or not a whole
/// one. Images with a side of more than kMostPicturePixels are refused (65) before any memory is taken for them.
Picture read_png(const std::filesystem::path& path);

}  // namespace dptrain
