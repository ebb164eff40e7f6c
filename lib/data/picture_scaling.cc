#include "data/picture_scaling.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

namespace dptrain {
namespace {

/// Of the weights, as whole numbers: as many as leave room for a byte and a sign.
constexpr int kWeightBits = 32 - 8 - 2;

/// The pixels of a line that one of a scaled line is a mean of.
struct Window {
  int64_t first = 0;
  std::vector<int32_t> weights;  ///< 1 << kWeightBits in all, but for rounding
};

std::vector<Window> windows(int64_t from, int64_t to) {
  const double scale = static_cast<double>(from) / static_cast<double>(to), width = std::max(scale, 1.0);
  std::vector<Window> all;
  for (int64_t i = 0; i < to; ++i) {
    const double center = (static_cast<double>(i) + 0.5) * scale;
    const int64_t first = std::max<int64_t>(static_cast<int64_t>(center - width + 0.5), 0);
    const int64_t end = std::min<int64_t>(static_cast<int64_t>(center + width + 0.5), from);
    std::vector<double> shares;
    double sum = 0;
    for (int64_t pixel = first; pixel < end; ++pixel) {
      const double distance = std::abs((static_cast<double>(pixel) - center + 0.5) * (1 / width));
      shares.push_back(std::max(0.0, 1 - distance));
      sum += shares.back();
    }
    Window& window = all.emplace_back(Window{.first = first, .weights = {}});
    for (const double share : shares)
      window.weights.push_back(static_cast<int32_t>(0.5 + share * (1 / sum) * (1 << kWeightBits)));
  }
  return all;
}

/// A mean of pixels that lie `stride` apart.
uint8_t mean_of(const Window& window, const uint8_t* line, int64_t stride) {
  int32_t sum = 1 << (kWeightBits - 1);
  const uint8_t* pixel = line + window.first * stride;
  for (const int32_t weight : window.weights) {
    sum += *pixel * weight;
    pixel += stride;
  }
  return static_cast<uint8_t>(std::clamp(sum >> kWeightBits, 0, 255));
}

/// To other sides.
Picture scaled(const Picture& picture, int64_t height, int64_t width) {
  const int64_t channels = picture.shape[0], from_height = picture.shape[1], from_width = picture.shape[2];
  Picture across{.shape = {channels, from_height, width}};
  if (width == from_width) {
    across.pixels = picture.pixels;
  } else {
    const std::vector<Window> columns = windows(from_width, width);
    const uint8_t* line = picture.pixels.data();
    for (int64_t row = 0; row < channels * from_height; ++row, line += from_width)
      for (const Window& column : columns) across.pixels.push_back(mean_of(column, line, 1));
  }
  if (height == from_height) return across;
  Picture result{.shape = {channels, height, width}};
  const std::vector<Window> rows = windows(from_height, height);
  const uint8_t* plane = across.pixels.data();
  for (int64_t channel = 0; channel < channels; ++channel, plane += from_height * width)
    for (const Window& row : rows)
      for (int64_t x = 0; x < width; ++x) result.pixels.push_back(mean_of(row, plane + x, width));
  return result;
}

/// Half of what is cut off, to the nearest even number where it is between two, as Python rounds.
int64_t border(int64_t side, int64_t size) {
  return static_cast<int64_t>(std::nearbyint(static_cast<double>(side - size) / 2));
}

}  // namespace

Picture scaled_to_square(const Picture& picture, int64_t size) {
  const int64_t height = picture.shape[1], width = picture.shape[2], shorter = std::min(height, width);
  const Picture whole = scaled(picture, size * height / shorter, size * width / shorter);
  Picture middle{.shape = {whole.shape[0], size, size}};
  const int64_t top = border(whole.shape[1], size), left = border(whole.shape[2], size);
  for (int64_t channel = 0; channel < whole.shape[0]; ++channel)
    for (int64_t y = top; y < top + size; ++y) {
      const auto row = whole.pixels.begin() + (channel * whole.shape[1] + y) * whole.shape[2] + left;
      middle.pixels.insert(middle.pixels.end(), row, row + size);
    }
  return middle;
}

}  // namespace dptrain
