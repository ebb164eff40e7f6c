#pragma once

#include <gtest/gtest.h>
#include <png.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

namespace dptrain::testing {

struct PngKind {
  int color = PNG_COLOR_TYPE_GRAY;
  int bits = 8;  ///< bits per sample
  bool interlaced = false;
  double gamma = 0;           ///< value of the gAMA chunk; 0: no chunk
  bool transparency = false;  ///< whether a tRNS chunk makes the palette's entries transparent
};

/// Entry i of the palette of these files.
inline png_color palette_color(int i) {
  return {static_cast<png_byte>(10 * i), static_cast<png_byte>(20 * i), static_cast<png_byte>(255 - i)};
}

/// A PNG file. `samples` are row by row, with the samples of a pixel together: one byte each, or with 16 bits two, the
/// high one first.
inline std::string png_file(int height, int width, const std::vector<uint8_t>& samples, const PngKind& kind = {}) {
  std::string file;
  png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
  png_infop info = png_create_info_struct(png);
  png_set_write_fn(
      png, &file,
      [](png_structp writer, png_bytep bytes, size_t count) {
        static_cast<std::string*>(png_get_io_ptr(writer))->append(reinterpret_cast<const char*>(bytes), count);
      },
      nullptr);
  png_set_IHDR(png, info, static_cast<png_uint_32>(width), static_cast<png_uint_32>(height), kind.bits, kind.color,
               kind.interlaced ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT,
               PNG_FILTER_TYPE_DEFAULT);
  std::vector<png_color> palette;
  for (int i = 0; i < 1 << std::min(kind.bits, 4); ++i) palette.push_back(palette_color(i));
  const std::vector<png_byte> alpha(palette.size());
  if (kind.color == PNG_COLOR_TYPE_PALETTE) {
    png_set_PLTE(png, info, palette.data(), static_cast<int>(palette.size()));
    if (kind.transparency) png_set_tRNS(png, info, alpha.data(), static_cast<int>(alpha.size()), nullptr);
  }
  if (kind.gamma > 0) png_set_gAMA(png, info, kind.gamma);
  png_write_info(png, info);
  png_set_packing(png);
  const size_t row_bytes = samples.size() / static_cast<size_t>(height);
  EXPECT_EQ(row_bytes, static_cast<size_t>(width * png_get_channels(png, info) * (kind.bits == 16 ? 2 : 1)));
  std::vector<png_bytep> rows;
  for (size_t y = 0; y < static_cast<size_t>(height); ++y)
    rows.push_back(const_cast<png_bytep>(samples.data()) + y * row_bytes);
  png_write_image(png, rows.data());
  png_write_end(png, nullptr);
  png_destroy_write_struct(&png, &info);
  return file;
}

}  // namespace dptrain::testing
