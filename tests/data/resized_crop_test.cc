// Windows that are scaled to their image's size: which windows are drawn, and results that equal Pillow's byte for
// byte.
#include "ops/resized_crop.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "data/picture_scaling.h"
#include "ops/augmented_image.h"

namespace dptrain::ops {
namespace resized_crop_test {

using Bytes = std::vector<uint8_t>;

constexpr uint32_t fraction(double value) { return static_cast<uint32_t>(value * 0x1p16 + 0.5); }

/// Values that rise to the right and down, and wrap around after 255.
Bytes slope(const ImageSize& size) {
  Bytes bytes;
  for (int32_t y = 0; y < size.height; ++y)
    for (int32_t x = 0; x < size.width; ++x) bytes.push_back(static_cast<uint8_t>(7 * x * x + 11 * y + 3 * x * y));
  return bytes;
}

Bytes scaled(const Bytes& image, const ImageSize& size, const CropWindow& window) {
  Bytes result;
  for (int32_t y = 0; y < size.height; ++y)
    for (int32_t x = 0; x < size.width; ++x) {
      const auto down = Neighbours::of(y, size.height, window.top, window.height),
                 across = Neighbours::of(x, size.width, window.left, window.width);
      const auto at = [&](int32_t row, int32_t column) {
        return image[static_cast<size_t>(row * size.width + column)];
      };
      result.push_back(down.mean(across.mean(at(down.first, across.first), at(down.first, across.second)),
                                 across.mean(at(down.second, across.first), at(down.second, across.second))));
    }
  return result;
}

/// Expected values are those of Pillow 13's image.crop(window).resize(size, BILINEAR), as torchvision's resized_crop
/// calls it.
TEST(ResizedCrop, MakesWhatTorchvisionDoes) {
  struct Case {
    ImageSize size;
    CropWindow window;
    Bytes expected;
  };
  const std::vector<Case> cases = {
      {{6, 7}, {1, 2, 4, 3}, {45, 50, 67,  83,  105, 128, 135, 54, 59,  76,  93,  116, 139, 147,
                              65, 71, 88,  106, 131, 154, 162, 76, 82,  101, 120, 144, 169, 177,
                              88, 94, 114, 133, 159, 184, 193, 96, 103, 123, 143, 169, 195, 204}},
      {{6, 7}, {0, 0, 6, 7}, slope({6, 7})},
      {{5, 9}, {1, 0, 3, 9}, {11,  21,  45,  83, 135, 201, 25,  119, 227, 15,  27,  52,  91, 144, 211,
                              37,  132, 139, 22, 35,  62,  103, 158, 227, 54,  151, 6,   29, 43,  72,
                              115, 172, 243, 71, 170, 27,  33,  49,  79,  123, 181, 253, 83, 183, 41}}};
  for (const Case& one : cases) EXPECT_EQ(scaled(slope(one.size), one.size, one.window), one.expected);
}

/// Windows of every size, compared with the scaling of pictures, which computes in double precision as Pillow does.
TEST(ResizedCrop, ScalesASquareAsAPictureIs) {
  for (const int32_t side : {5, 28, 31, 64, 97}) {
    const ImageSize size{side, side};
    for (int32_t part = 1; part <= side; part += side > 40 ? 7 : 1) {
      const CropWindow window{.top = (side - part) / 3, .left = side - part, .height = part, .width = part};
      Picture picture{.shape = {1, part, part}};
      const Bytes image = slope(size);
      for (int32_t y = 0; y < part; ++y)
        for (int32_t x = 0; x < part; ++x)
          picture.pixels.push_back(image[static_cast<size_t>((window.top + y) * side + window.left + x)]);
      EXPECT_EQ(scaled(image, size, window), scaled_to_square(picture, side).pixels) << part << " of " << side;
    }
  }
}

std::vector<CropWindow> windows_of(const CropRange& range, const ImageSize& size, uint32_t samples) {
  std::vector<CropWindow> windows;
  for (uint32_t sample = 0; sample < samples; ++sample)
    windows.push_back(draw_window(range, size, KeyedRandom(3, RandomPurpose::augmentation, 1, sample), 3));
  return windows;
}

TEST(ResizedCrop, DrawsAreasAndRatiosEvenly) {
  // All windows fit, so that no draw is rejected.
  const CropRange range{
      .least_area = fraction(0.1), .most_area = fraction(0.3), .least_ratio = fraction(0.5), .doublings = fraction(2)};
  const ImageSize size{800, 1000};
  constexpr uint32_t kSamples = 4000;
  std::vector<double> areas, ratios, tops, lefts;
  for (const CropWindow& window : windows_of(range, size, kSamples)) {
    areas.push_back((window.height * window.width / 800e3 - 0.1) / 0.2);
    ratios.push_back((std::log2(static_cast<double>(window.width) / window.height) + 1) / 2);
    tops.push_back(static_cast<double>(window.top) / (size.height - window.height));
    lefts.push_back(static_cast<double>(window.left) / (size.width - window.width));
  }
  for (const std::vector<double>* uniform : {&areas, &ratios, &tops, &lefts}) {
    // The values are uniform from 0 to 1, except for rounding to whole pixels: each tenth is equally likely.
    std::vector<int> tenths(10);
    for (const double value : *uniform) {
      ASSERT_GE(value, -0.01);
      ASSERT_LE(value, 1.01);
      ++tenths[static_cast<size_t>(std::clamp(value * 10, 0.0, 9.0))];
    }
    for (const int count : tenths) EXPECT_NEAR(count, kSamples / 10, 4 * std::sqrt(kSamples / 10));
  }
}

/// torchvision's default: most draws fit, and the others are repeated.
TEST(ResizedCrop, LiesInTheImage) {
  const CropRange range{.least_area = fraction(0.08),
                        .most_area = fraction(1),
                        .least_ratio = fraction(0.75),
                        .doublings = fraction(std::log2(16.0 / 9))};
  for (const ImageSize size : {ImageSize{32, 32}, {28, 28}, {1, 1}, {1, 40}, {40, 1}, {4096, 4096}, {7, 300}})
    for (const CropWindow& window : windows_of(range, size, 500)) {
      ASSERT_GT(window.height, 0);
      ASSERT_GT(window.width, 0);
      ASSERT_GE(window.top, 0);
      ASSERT_GE(window.left, 0);
      ASSERT_LE(window.top + window.height, size.height);
      ASSERT_LE(window.left + window.width, size.width);
    }
}

TEST(ResizedCrop, WhatNeverFitsIsTheLargestInTheMiddle) {
  const auto window_of = [](double ratio, const ImageSize& size) {
    return windows_of({.least_area = fraction(1), .most_area = fraction(1), .least_ratio = fraction(ratio)}, size,
                      1)[0];
  };
  const auto expect_window = [](const CropWindow& got, const CropWindow& right) {
    EXPECT_EQ(got.top, right.top);
    EXPECT_EQ(got.left, right.left);
    EXPECT_EQ(got.height, right.height);
    EXPECT_EQ(got.width, right.width);
  };
  expect_window(window_of(2, {32, 32}), {.top = 8, .left = 0, .height = 16, .width = 32});
  expect_window(window_of(0.5, {32, 32}), {.top = 0, .left = 8, .height = 32, .width = 16});
  expect_window(window_of(1, {32, 20}), {.top = 6, .left = 0, .height = 20, .width = 20});
  expect_window(window_of(1, {32, 32}), {.top = 0, .left = 0, .height = 32, .width = 32});
}

TEST(ResizedCrop, RootsAndPowersAreThoseOfWholeNumbers) {
  for (uint64_t value = 0; value < 70'000; ++value)
    ASSERT_EQ(square_root(value), static_cast<uint32_t>(std::sqrt(static_cast<double>(value)))) << value;
  EXPECT_EQ(square_root((uint64_t{1} << 32) - 1), 65535u);
  for (const double root : {1.0, 1.49, 1.51, 100.25, 4095.75})
    EXPECT_EQ(nearest_root(static_cast<uint64_t>(root * root * 0x1p16)), std::lround(root)) << root;
  for (uint32_t exponent = 0; exponent < 8u << 16; exponent += 977) {
    const double right = std::exp2(exponent / 0x1p16) * 0x1p16;
    EXPECT_NEAR(static_cast<double>(power_of_two(exponent)), right, right * 0x1p-15) << exponent;
  }
}

TEST(ResizedCrop, DrawsArePartOfEveryResult) {
  // Other numbers here would change every run with augmentation.
  const CropRange range{.least_area = fraction(0.08),
                        .most_area = fraction(1),
                        .least_ratio = fraction(0.75),
                        .doublings = fraction(std::log2(16.0 / 9))};
  std::vector<std::vector<int32_t>> found;
  for (const CropWindow& window : windows_of(range, {32, 32}, 4))
    found.push_back({window.top, window.left, window.height, window.width});
  EXPECT_EQ(found,
            (std::vector<std::vector<int32_t>>{{1, 4, 31, 28}, {16, 7, 15, 13}, {0, 1, 32, 29}, {0, 6, 28, 23}}));
}

}  // namespace resized_crop_test
}  // namespace dptrain::ops
