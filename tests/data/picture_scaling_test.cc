#include "data/picture_scaling.h"

#include <gtest/gtest.h>

namespace dptrain {
namespace {

using Bytes = std::vector<uint8_t>;

/// Values that rise to the right and down, differ by channel, and wrap around after 255.
Picture slope(const Shape& shape) {
  Picture picture{.shape = shape};
  for (int64_t c = 0; c < shape[0]; ++c)
    for (int64_t y = 0; y < shape[1]; ++y)
      for (int64_t x = 0; x < shape[2]; ++x)
        picture.pixels.push_back(static_cast<uint8_t>(40 * c + 7 * x * x + 11 * y + 3 * x * y));
  return picture;
}

/// Expected values are those of Pillow 13 with the rules of torchvision's Resize and CenterCrop, for each channel.
TEST(PictureScaling, MakesWhatTorchvisionDoes) {
  struct Case {
    Shape from;
    int64_t size;
    Bytes expected;
  };
  const std::vector<Case> cases = {
      {{1, 7, 5}, 3, {9, 40, 102, 29, 66, 136, 51, 98, 176}},
      {{3, 6, 11}, 4, {90,  168, 136, 150, 120, 170, 98,  105, 151, 158, 137, 108, 180, 96,  180, 158,
                       130, 174, 100, 136, 160, 112, 133, 97,  191, 100, 177, 148, 150, 103, 140, 127,
                       170, 158, 130, 88,  188, 96,  159, 133, 131, 92,  103, 127, 148, 122, 132, 124}},
      {{1, 3, 4}, 5, {0, 4, 11, 24, 46, 4, 9, 17, 31, 53, 11, 16, 25, 41, 64, 18, 24, 34, 51, 75, 22, 29, 40, 57, 83}},
      {{1, 40, 33}, 6, {100, 132, 127, 125, 116, 125, 130, 129, 127, 133, 129, 130, 133, 130, 132, 129, 130, 131,
                        128, 126, 131, 135, 126, 127, 124, 126, 134, 138, 134, 126, 127, 133, 135, 132, 129, 127}}};
  for (const Case& one : cases) {
    SCOPED_TRACE(one.from.text());
    const Picture scaled = scaled_to_square(slope(one.from), one.size);
    EXPECT_EQ(scaled.shape, Shape({one.from[0], one.size, one.size}));
    EXPECT_EQ(scaled.pixels, one.expected);
  }
}

TEST(PictureScaling, ASquareOfThatSizeStaysAsItIs) {
  const Picture picture = slope({3, 5, 5});
  EXPECT_EQ(scaled_to_square(picture, 5).pixels, picture.pixels);
}

/// The whole scaled picture would take 17 GB.
TEST(PictureScaling, OfAThinPictureTheMiddleAloneIsMade) {
  Picture thin{.shape = {1, 1, 4096}, .pixels = Bytes(4096, 7)};
  thin.pixels[2047] = 100, thin.pixels[2048] = 200;
  const Picture middle = scaled_to_square(thin, 2048);
  EXPECT_EQ(middle.shape, Shape({1, 2048, 2048}));
  // Values go from the middle of one pixel to that of the other, alike in every row.
  for (const size_t row : {0, 2047})
    EXPECT_EQ((Bytes{middle.pixels[row * 2048], middle.pixels[row * 2048 + 512], middle.pixels[row * 2048 + 2047]}),
              (Bytes{100, 125, 200}));
  Picture upright{.shape = {1, 4096, 1}, .pixels = thin.pixels};
  const Picture turned = scaled_to_square(upright, 2048);
  for (int64_t i = 0; i < 2048; ++i) EXPECT_EQ(turned.pixels[i * 2048], middle.pixels[i]) << i;
}

TEST(PictureScaling, OneColorStaysOneColor) {
  const Picture white{.shape = {1, 97, 31}, .pixels = Bytes(97 * 31, 255)};
  for (const int64_t size : {1, 7, 31, 64}) EXPECT_EQ(scaled_to_square(white, size).pixels, Bytes(size * size, 255));
}

}  // namespace
}  // namespace dptrain
