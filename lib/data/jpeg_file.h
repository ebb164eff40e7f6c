#pragma once

#include <filesystem>
#include <string_view>

#include "data/picture.h"

namespace dptrain {

/// The first bytes of every JPEG file.
inline constexpr std::string_view kJpegBeginning = "\xff\xd8";

/// Reads a JPEG file (ITU-T T.81, JFIF), gray or in color. It is decoded with libjpeg's defaults, like in most other
/// programs. The camera's orientation in Exif is ignored, as torchvision's ImageFolder does.
///
/// Throws 66 if the file is missing. Throws 65, naming the file, if it is not a JPEG image, not a whole one, or one in
/// printers' colors (CMYK). Images with a side of more than kMostPicturePixels are refused (65) before any memory is
/// taken for them.
Picture read_jpeg(const std::filesystem::path& path);

}  // namespace dptrain
