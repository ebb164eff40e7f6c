#pragma once

#include <array>
#include <cstdint>

#include "base/random.h"

namespace dptrain::ops {

/// What may happen to an image before a model learns from it. The values are part of every result: never renumber.
enum class AugmentationKind : uint32_t {
  random_crop = 0,  ///< pads it with zeros and takes a window of its size (He et al., 2016, section 4.2)
  flip = 1,         ///< mirrors every second image, left to right
  cutout = 2        ///< zeroes a square around any pixel, as far as it lies in the image (DeVries and Taylor, 2017)
};

struct Augmentation {
  AugmentationKind kind = AugmentationKind::random_crop;
  /// Zeros at each side of a random crop; the side of a cutout's square, 0 for half the image's shorter one.
  int32_t pixels = 0;
};

/// Augmentations in the order in which they are applied, each kind at most once. Kernels take them by value.
struct Augmentations {
  uint64_t seed = 0;
  std::array<Augmentation, 3> list = {};
  uint32_t count = 0;

  constexpr bool empty() const { return count == 0; }
};

struct ImageSize {
  int32_t height = 0;
  int32_t width = 0;
};

/// Where each pixel of an augmented image comes from, all that is random about it drawn: for the host and for kernels.
/// What is drawn depends on (seed, epoch, sample, kind) alone. All augmentations move or blank whole pixels, so that
/// however many there are, a pixel is read once.
class AugmentedImage {
 public:
  /// A pixel that comes from nowhere: byte 0 in every channel, before normalization.
  static constexpr int32_t kZero = -1;

  constexpr AugmentedImage(const Augmentations& augmentations, const ImageSize& size, uint32_t epoch, uint32_t sample)
      : size_(size), inside_{.bottom = size.height, .right = size.width} {
    const KeyedRandom random(augmentations.seed, RandomPurpose::augmentation, epoch, sample);
    for (uint32_t i = 0; i < augmentations.count; ++i) {
      const Augmentation& next = augmentations.list[i];
      const std::array<uint32_t, 4> words = random.words(static_cast<uint64_t>(next.kind));
      if (next.kind == AugmentationKind::random_crop)
        crop(drawn(words[0], 2 * next.pixels + 1) - next.pixels, drawn(words[1], 2 * next.pixels + 1) - next.pixels);
      else if (next.kind == AugmentationKind::cutout)
        cut_out(drawn(words[0], size.height), drawn(words[1], size.width), next.pixels);
      else if (drawn(words[0], 2) == 1)
        mirror();
    }
  }

  constexpr const ImageSize& size() const { return size_; }

  /// The number of the original's pixel, y * width + x of its own, that is to be seen at (y, x); or kZero.
  constexpr int32_t source(int32_t y, int32_t x) const {
    if (!inside_.holds(y, x) || hole_.holds(y, x)) return kZero;
    return (y + down_) * size_.width + right_ + (mirrored_ ? -x : x);
  }

 private:
  /// Pixels (y, x) with top <= y < bottom and left <= x < right.
  struct Rectangle {
    int32_t top = 0;
    int32_t left = 0;
    int32_t bottom = 0;
    int32_t right = 0;

    constexpr bool holds(int32_t y, int32_t x) const { return y >= top && y < bottom && x >= left && x < right; }
    constexpr Rectangle moved(int32_t down, int32_t to_right) const {
      return {top + down, left + to_right, bottom + down, right + to_right};
    }
    constexpr Rectangle mirrored(int32_t width) const { return {top, width - right, bottom, width - left}; }
  };

  static constexpr int32_t drawn(uint32_t word, int32_t bound) {
    return static_cast<int32_t>(word_below(word, static_cast<uint32_t>(bound)));
  }

  /// From here on (y, x) shows what was at (y + down, x + right).
  constexpr void crop(int32_t down, int32_t right) {
    down_ += down;
    right_ += mirrored_ ? -right : right;
    inside_ = inside_.moved(-down, -right);
    hole_ = hole_.moved(-down, -right);
  }

  constexpr void mirror() {
    right_ += mirrored_ ? 1 - size_.width : size_.width - 1;
    mirrored_ = !mirrored_;
    inside_ = inside_.mirrored(size_.width);
    hole_ = hole_.mirrored(size_.width);
  }

  constexpr void cut_out(int32_t y, int32_t x, int32_t side) {
    if (side == 0) side = (size_.height < size_.width ? size_.height : size_.width) / 2;
    const int32_t top = y - side / 2, left = x - side / 2;
    hole_ = {top, left, top + side, left + side};
  }

  ImageSize size_;
  int32_t down_ = 0;
  int32_t right_ = 0;
  bool mirrored_ = false;
  Rectangle inside_;  ///< where the original, not its padding, is to be seen
  Rectangle hole_ = {};
};

}  // namespace dptrain::ops
