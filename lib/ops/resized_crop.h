#pragma once

#include <cstdint>

#include "base/random.h"
#include "ops/pixel_map.h"

namespace dptrain::ops {

// A window of an image, scaled up to the image's size. All arithmetic is in whole numbers, so that hosts and GPUs
// compute the same bytes.

/// The range from which windows are drawn; all numbers are fractions of 2^16.
struct CropRange {
  uint32_t least_area = 0;  ///< share of the image's area
  uint32_t most_area = 0;
  uint32_t least_ratio = 0;  ///< width over height
  uint32_t doublings = 0;    ///< log2(the largest ratio / the least ratio)
};

struct CropWindow {
  int32_t top = 0;
  int32_t left = 0;
  int32_t height = 0;
  int32_t width = 0;
};

/// The integer square root, rounded down, for values whose root is below 2^16.
constexpr uint32_t square_root(uint64_t value) {
  uint32_t root = 0;
  for (uint32_t bit = 1u << 15; bit != 0; bit >>= 1)
    if (uint64_t{root | bit} * (root | bit) <= value) root |= bit;
  return root;
}

/// The integer nearest to the square root of value / 2^16, for values below 2^46.
constexpr int32_t nearest_root(uint64_t value) {
  return static_cast<int32_t>((square_root(value >> 14) + 1) / 2);  // the root of four times the value
}

/// 2^(exponent / 2^16) as a fraction of 2^16, within 2^-15 of it, for exponents below 2^20.
constexpr uint64_t power_of_two(uint32_t exponent) {
  // The Taylor series of 2^x for 0 <= x < 1, by Horner's rule, with ln(2)^k / k! as fractions of 2^30.
  constexpr uint64_t kTerms[] = {165'394, 1'431'680, 10'327'387, 59'597'083, 257'941'248, 744'261'118, 1'073'741'824};
  const uint64_t x = exponent & 0xffff;
  uint64_t sum = 0;
  for (const uint64_t term : kTerms) sum = (sum * x >> 16) + term;
  return (sum >> 14) << (exponent >> 16);
}

/// Draws a window like torchvision's RandomResizedCrop. The area is uniform in its range, the ratio's logarithm is
/// uniform in its range, and the place in the image is uniform. If ten such windows don't fit in the image, the result
/// is the largest centered window with a ratio in the range. Uses blocks of random words from `block` on, 16 apart.
constexpr CropWindow draw_window(const CropRange& range, const ImageSize& size, const KeyedRandom& random,
                                 uint64_t block) {
  const auto width = static_cast<uint64_t>(size.width), height = static_cast<uint64_t>(size.height);
  const auto drawn = [](uint32_t word, int32_t bound) {
    return static_cast<int32_t>(word_below(word, static_cast<uint32_t>(bound)));
  };
  for (uint64_t attempt = 0; attempt < 10; ++attempt) {
    const auto words = random.words(block + 16 * attempt);
    const uint64_t area =
        height * width * (range.least_area + word_below(words[0], range.most_area - range.least_area + 1));
    const uint64_t ratio = range.least_ratio * power_of_two(word_below(words[1], range.doublings + 1)) >> 16;
    const int32_t w = nearest_root(area * ratio >> 16), h = nearest_root((area << 16) / ratio);
    if (w > 0 && w <= size.width && h > 0 && h <= size.height)
      return {.top = drawn(words[2], size.height - h + 1),
              .left = drawn(words[3], size.width - w + 1),
              .height = h,
              .width = w};
  }
  const uint64_t most_ratio = range.least_ratio * power_of_two(range.doublings) >> 16;
  CropWindow window{.height = size.height, .width = size.width};
  if (width << 16 < height * range.least_ratio)
    window.height = static_cast<int32_t>(((width << 17) / range.least_ratio + 1) / 2);
  else if (width << 16 > height * most_ratio)
    window.width = static_cast<int32_t>(((height * most_ratio >> 15) + 1) / 2);
  window.top = (size.height - window.height) / 2;
  window.left = (size.width - window.width) / 2;
  return window;
}

/// The two neighbors along one axis of an image whose weighted mean is a scaled pixel.
struct Neighbours {
  /// Bits of the weights: as many as leave room for a byte and a sign, as in Pillow.
  static constexpr int kBits = 22;

  int32_t first = 0;
  int32_t second = 0;
  int32_t second_share = 0;  ///< of 1 << kBits

  /// Returns the neighbors of pixel `at` on a side of `to` pixels, scaled from `from` pixels (no more than `to`) that
  /// begin at pixel `begin`.
  static constexpr Neighbours of(int32_t at, int32_t to, int32_t begin, int32_t from) {
    // The pixel's center is at (2 at + 1) from / (2 to) along the side; the center of pixel k is at k + 1/2.
    const int64_t place = int64_t{2 * at + 1} * from - to;  // times 1 / (2 to), from the first pixel's center
    if (place <= 0) return {begin, begin, 0};
    const int64_t first = place / (2 * int64_t{to}), rest = place % (2 * int64_t{to});
    if (first >= from - 1) return {begin + from - 1, begin + from - 1, 0};
    return {begin + static_cast<int32_t>(first), begin + static_cast<int32_t>(first) + 1,
            static_cast<int32_t>(((rest << kBits) + to) / (2 * int64_t{to}))};
  }
  constexpr uint8_t mean(uint8_t a, uint8_t b) const {
    const int32_t sum = (1 << (kBits - 1)) + a * ((1 << kBits) - second_share) + b * second_share;
    return static_cast<uint8_t>(sum >> kBits);
  }
};

}  // namespace dptrain::ops
