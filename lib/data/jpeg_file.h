#pragma once

#include <filesystem>
#include <string_view>

#include "data/picture.h"

namespace dptrain {

/// How every JPEG file begins.
inline constexpr std::string_view kJpegBeginning = "\xff\xd8";

/// Reads a JPEG file (ITU-T T.81, JFIF), gray or in color, as libjpeg decodes it by default, which is how other
/// programs see it. Which way up the camera was held, as Exif has it, is left out, as torchvision's ImageFolder does.
///
/// Throws 66 where the file is missing, and 65, naming it, where it is no JPEG image, not a whole one, or one in
/// printers' colors. Sides of more than kMostPicturePixels are refused (65) before any memory is taken for them.
Picture read_jpeg(const std::filesystem::path& path);

}  // namespace dptrain
