#include "data/picture.h"

#include <fmt/format.h>

#include <array>
#include <fstream>
#include <string_view>

#include "base/error.h"
#include "data/jpeg_file.h"
#include "data/plain_or_gzip_file.h"
#include "data/png_file.h"

namespace dptrain {

Picture picture_of_rows(const std::vector<uint8_t>& rows, const Shape& shape) {
  Picture picture{.shape = shape, .pixels = std::vector<uint8_t>(rows.size())};
  const auto channels = static_cast<size_t>(shape[0]), plane = rows.size() / channels;
  for (size_t c = 0; c < channels; ++c)
    for (size_t i = 0; i < plane; ++i) picture.pixels[c * plane + i] = rows[i * channels + c];
  return picture;
}

void check_picture_side(const std::filesystem::path& file, const char* side, uint32_t pixels) {
  if (pixels > kMostPicturePixels)
    throw Error(ExitCode::bad_data, Mistake{.where = fmt::format("{}: {}", file.string(), side),
                                            .expected = fmt::format("expected at most {} pixels", kMostPicturePixels),
                                            .got = fmt::format("{}", pixels),
                                            .advice = "scale the image down"});
}

Picture read_picture(const std::filesystem::path& path) {
  std::array<char, 2> bytes{};
  std::ifstream file(path, std::ios::binary);
  file.read(bytes.data(), bytes.size());
  if (file.is_open() && file.gcount() == 0)
    throw Error(ExitCode::bad_data, Mistake{.where = path.string(),
                                            .expected = "expected a PNG or JPEG image",
                                            .got = "an empty file",
                                            .advice = std::string(kGetFileAgain)});
  // A file that is neither, or can't be read, is reported by the PNG reader.
  return std::string_view(bytes.data(), bytes.size()) == kJpegBeginning ? read_jpeg(path) : read_png(path);
}

}  // namespace dptrain
