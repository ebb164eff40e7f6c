#pragma once

#include <cstdint>

namespace dptrain::ops {

struct ImageSize {
  int32_t height = 0;
  int32_t width = 0;
};

/// Maps each pixel of a cropped, mirrored or partly blanked image to its source, for the host and for kernels. However
/// many changes are combined, a pixel takes one lookup.
class PixelMap {
 public:
  /// A pixel without a source: byte 0 in every channel, before normalization.
  static constexpr int32_t kZero = -1;

  constexpr explicit PixelMap(const ImageSize& size)
      : size_(size), inside_{.bottom = size.height, .right = size.width} {}

  constexpr const ImageSize& size() const { return size_; }

  /// Returns the number of the original's pixel that appears at (y, x), y * width + x in the original, or kZero.
  constexpr int32_t source(int32_t y, int32_t x) const {
    if (!inside_.holds(y, x) || hole_.holds(y, x)) return kZero;
    return (y + down_) * size_.width + right_ + (mirrored_ ? -x : x);
  }

  /// Shifts the image: (y, x) then shows what was at (y + down, x + right).
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

  /// Blanks a square around (y, x), clipped to the image; a side of 0 means half the image's shorter side.
  constexpr void cut_out(int32_t y, int32_t x, int32_t side) {
    if (side == 0) side = (size_.height < size_.width ? size_.height : size_.width) / 2;
    const int32_t top = y - side / 2, left = x - side / 2;
    hole_ = {top, left, top + side, left + side};
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

  ImageSize size_;
  int32_t down_ = 0;
  int32_t right_ = 0;
  bool mirrored_ = false;
  Rectangle inside_;  ///< where the original, not its padding, is visible
  Rectangle hole_ = {};
};

}  // namespace dptrain::ops
