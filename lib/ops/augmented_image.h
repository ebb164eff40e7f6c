#pragma once

#include <array>
#include <cstdint>

#include "base/random.h"
#include "ops/pixel_map.h"
#include "ops/resized_crop.h"

namespace dptrain::ops {

/// Random changes to a training image. The values enter the random draws, so they must never be renumbered.
enum class AugmentationKind : uint32_t {
  random_crop = 0,         ///< pads the image with zeros and takes a window of its size (He et al., 2016, section 4.2)
  flip = 1,                ///< mirrors an image, left to right, with probability 1/2
  cutout = 2,              ///< zeroes a square around a random pixel, clipped to the image (DeVries and Taylor, 2017)
  random_resized_crop = 3  ///< takes a window of random size and scales it to the image's size (Szegedy et al., 2015)
};

struct Augmentation {
  AugmentationKind kind = AugmentationKind::random_crop;
  /// For a random crop, the zeros at each side. For a cutout, the side of the square, or 0 for half the image's shorter
  /// side.
  int32_t pixels = 0;
  CropRange window = {};  ///< of a random resized crop
};

/// Augmentations in the order in which they are applied, each kind at most once. Kernels take them by value.
struct Augmentations {
  uint64_t seed = 0;
  std::array<Augmentation, 4> list = {};
  uint32_t count = 0;

  constexpr bool empty() const { return count == 0; }
};

/// How to compute a pixel's byte in an augmented image: one pixel of the original, or a mean of four.
struct PixelSource {
  /// Numbers of pixels, or PixelMap::kZero, in the order upper left, upper right, lower left, lower right.
  int32_t at[4] = {PixelMap::kZero, PixelMap::kZero, PixelMap::kZero, PixelMap::kZero};
  bool is_mean = false;
  Neighbours across = {};
  Neighbours down = {};

  /// Returns the byte from `plane`, one channel of the original.
  constexpr uint8_t byte(const uint8_t* plane) const {
    if (!is_mean) return byte_at(plane, 0);
    return down.mean(across.mean(byte_at(plane, 0), byte_at(plane, 1)),
                     across.mean(byte_at(plane, 2), byte_at(plane, 3)));
  }

 private:
  constexpr uint8_t byte_at(const uint8_t* plane, int corner) const { return at[corner] < 0 ? 0 : plane[at[corner]]; }
};

/// Maps each pixel of an augmented image to its source, with all random numbers drawn, for the host and for kernels.
/// The draws depend only on (seed, epoch, sample, kind).
class AugmentedImage {
 public:
  constexpr AugmentedImage(const Augmentations& augmentations, const ImageSize& size, uint32_t epoch, uint32_t sample)
      : map_(size), before_(size) {
    const KeyedRandom random(augmentations.seed, RandomPurpose::augmentation, epoch, sample);
    for (uint32_t i = 0; i < augmentations.count; ++i) {
      const Augmentation& next = augmentations.list[i];
      const auto block = static_cast<uint64_t>(next.kind);
      if (next.kind == AugmentationKind::random_resized_crop) {
        window_ = draw_window(next.window, size, random, block);
        before_ = map_;
        map_ = PixelMap(size);
        continue;
      }
      const std::array<uint32_t, 4> words = random.words(block);
      if (next.kind == AugmentationKind::random_crop)
        map_.crop(drawn(words[0], 2 * next.pixels + 1) - next.pixels,
                  drawn(words[1], 2 * next.pixels + 1) - next.pixels);
      else if (next.kind == AugmentationKind::cutout)
        map_.cut_out(drawn(words[0], size.height), drawn(words[1], size.width), next.pixels);
      else if (drawn(words[0], 2) == 1)
        map_.mirror();
    }
  }

  constexpr const ImageSize& size() const { return map_.size(); }

  /// The source of pixel (y, x).
  constexpr PixelSource source(int32_t y, int32_t x) const {
    PixelSource source;
    if (window_.height == 0) {
      source.at[0] = map_.source(y, x);
      return source;
    }
    const int32_t scaled = map_.source(y, x), width = size().width;
    if (scaled < 0) return source;
    source.is_mean = true;
    source.down = Neighbours::of(scaled / width, size().height, window_.top, window_.height);
    source.across = Neighbours::of(scaled % width, width, window_.left, window_.width);
    source.at[0] = before_.source(source.down.first, source.across.first);
    source.at[1] = before_.source(source.down.first, source.across.second);
    source.at[2] = before_.source(source.down.second, source.across.first);
    source.at[3] = before_.source(source.down.second, source.across.second);
    return source;
  }

 private:
  static constexpr int32_t drawn(uint32_t word, int32_t bound) {
    return static_cast<int32_t>(word_below(word, static_cast<uint32_t>(bound)));
  }

  PixelMap map_;  ///< from the result's pixels to the original's, or to those of the scaled window if there is one
  CropWindow window_ = {};  ///< height 0: no window
  PixelMap before_;         ///< from pixels of the image that the window is cut from to the original's
};

}  // namespace dptrain::ops
