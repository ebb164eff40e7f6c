#include "data/png_file.h"

#include <gtest/gtest.h>

#include "data/refusal.h"
#include "support/idx_files.h"
#include "support/png_files.h"

namespace dptrain {
namespace {

using testing::palette_color;
using testing::png_file;
using testing::ScratchFolder;
using Bytes = std::vector<uint8_t>;

/// Reads `bytes` as a file called a.png.
Picture image_of(const std::string& bytes) {
  const ScratchFolder folder;
  return read_png(folder.write("a.png", bytes));
}

void expect_bad(const std::string& bytes, const std::vector<std::string>& words) {
  testing::expect_refusal(ExitCode::bad_data, words, [&] { image_of(bytes); });
}

void expect_image(const Picture& image, const Shape& shape, const Bytes& pixels) {
  EXPECT_EQ(image.shape, shape);
  EXPECT_EQ(image.pixels, pixels);
}

TEST(PngFile, GrayIsOneChannel) {
  const Bytes pixels = {0, 1, 2, 253, 254, 255};
  expect_image(image_of(png_file(2, 3, pixels)), {1, 2, 3}, pixels);
}

TEST(PngFile, ColorIsThreePlanes) {
  expect_image(image_of(png_file(1, 2, {1, 2, 3, 4, 5, 6}, {.color = PNG_COLOR_TYPE_RGB})), {3, 1, 2},
               {1, 4, 2, 5, 3, 6});
}

TEST(PngFile, AlphaIsLeftOutAndChangesNothing) {
  expect_image(image_of(png_file(1, 2, {1, 2, 3, 0, 4, 5, 6, 128}, {.color = PNG_COLOR_TYPE_RGB_ALPHA})), {3, 1, 2},
               {1, 4, 2, 5, 3, 6});
  expect_image(image_of(png_file(2, 1, {7, 0, 9, 255}, {.color = PNG_COLOR_TYPE_GRAY_ALPHA})), {1, 2, 1}, {7, 9});
}

TEST(PngFile, APaletteBecomesItsColors) {
  for (const int bits : {2, 4, 8})
    for (const bool transparency : {false, true}) {
      SCOPED_TRACE(bits);
      const png_color one = palette_color(1), three = palette_color(3);
      expect_image(image_of(png_file(1, 2, {3, 1},
                                     {.color = PNG_COLOR_TYPE_PALETTE, .bits = bits, .transparency = transparency})),
                   {3, 1, 2}, {three.red, one.red, three.green, one.green, three.blue, one.blue});
    }
}

TEST(PngFile, FewBitsAreSpreadOverTheBytes) {
  expect_image(image_of(png_file(1, 3, {0, 1, 1}, {.bits = 1})), {1, 1, 3}, {0, 255, 255});
  expect_image(image_of(png_file(1, 4, {0, 1, 2, 3}, {.bits = 2})), {1, 1, 4}, {0, 85, 170, 255});
  expect_image(image_of(png_file(1, 3, {0, 1, 15}, {.bits = 4})), {1, 1, 3}, {0, 17, 255});
}

TEST(PngFile, SixteenBitsAreRounded) {
  // Of 255 levels, 0x017f is 383 / 257 = 1.49, 0x0181 is 1.498, and 0x0182 is 1.502.
  expect_image(image_of(png_file(1, 5, {0xff, 0xff, 0x80, 0x80, 0x01, 0x7f, 0x01, 0x81, 0x01, 0x82}, {.bits = 16})),
               {1, 1, 5}, {255, 128, 1, 1, 2});
}

TEST(PngFile, InterlacedIsTheSame) {
  Bytes samples;
  for (int i = 0; i < 9 * 11 * 3; ++i) samples.push_back(static_cast<uint8_t>(i * 7));
  const Picture plain = image_of(png_file(9, 11, samples, {.color = PNG_COLOR_TYPE_RGB}));
  EXPECT_EQ(plain.pixels[1], 21);
  expect_image(image_of(png_file(9, 11, samples, {.color = PNG_COLOR_TYPE_RGB, .interlaced = true})), plain.shape,
               plain.pixels);
}

TEST(PngFile, NoGammaIsApplied) {
  const Bytes pixels = {0, 100, 200};
  expect_image(image_of(png_file(1, 3, pixels, {.gamma = 1.0})), {1, 1, 3}, pixels);
}

TEST(PngFile, MissingFileIs66) {
  testing::expect_refusal(ExitCode::missing_file, {"/no/such.png", "no such file"}, [] { read_png("/no/such.png"); });
}

TEST(PngFile, OtherFilesAreRefused) {
  expect_bad("GIF89a", {"a.png: expected a PNG or JPEG image", "doesn't begin like one", "convert it"});
}

TEST(PngFile, EveryTruncationIsRefusedWithItsPlace) {
  const std::string whole = png_file(4, 5, Bytes(20, 9));
  for (size_t bytes = 0; bytes < whole.size(); ++bytes)
    expect_bad(whole.substr(0, bytes), {"a.png: byte " + std::to_string(bytes) + ": expected a whole PNG image",
                                        "the end of the file", "get the file again"});
}

TEST(PngFile, NoFlippedBitChangesThePixels) {
  const std::string whole = png_file(4, 5, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19});
  const Bytes pixels = image_of(whole).pixels;
  for (size_t bit = 0; bit < 8 * whole.size(); ++bit) {
    std::string flipped = whole;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << bit % 8));
    try {
      EXPECT_EQ(image_of(flipped).pixels, pixels) << "bit " << bit;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::bad_data) << "bit " << bit << ": " << error.what();
    }
  }
}

TEST(PngFile, AChecksumThatIsWrongIsNamed) {
  std::string file = png_file(2, 2, {1, 2, 3, 4});
  file[file.find("IEND") - 5] ^= 1;  // the checksum comes before the length of the IEND chunk
  expect_bad(file, {"a.png: byte ", "IDAT: CRC error"});
}

TEST(PngFile, SidesOverTheLimitAreRefused) {
  expect_bad(png_file(1, 4097, Bytes(4097)), {"a.png: width", "expected at most 4096 pixels, got 4097", "scale"});
  expect_bad(png_file(4097, 1, Bytes(4097)), {"a.png: height", "got 4097"});
  EXPECT_EQ(image_of(png_file(1, 4096, Bytes(4096))).shape, Shape({1, 1, 4096}));
}

}  // namespace
}  // namespace dptrain
