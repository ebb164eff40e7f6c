#include "data/picture_scaling.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

namespace dptrain {
namespace {

/// Weights are fixed-point numbers with this many fraction bits, which leaves room for a byte and a sign in 32 bits.
constexpr int kWeightBits = 32 - 8 - 2;

/// The pixels of a line whose weighted mean is one pixel of the scaled line.
struct Window {
  int64_t first = 0;
  std::vector<int32_t> weights;  ///< they add up to 1 << kWeightBits, except for rounding
};

/// A range of pixels of a line, or of lines of a picture.
struct Span {
  int64_t begin, end;
  int64_t size() const { return end - begin; }
};

/// The windows for a line of `from` pixels that is scaled to `to` pixels, for the range `kept` of the result.
std::vector<Window> windows(int64_t from, int64_t to, Span kept) {
  const double scale = static_cast<double>(from) / static_cast<double>(to), width = std::max(scale, 1.0);
  std::vector<Window> all;
  for (int64_t i = kept.begin; i < kept.end; ++i) {
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

/// The weighted mean of pixels that are `stride` apart.
uint8_t mean_of(const Window& window, const uint8_t* line, int64_t stride) {
  int32_t sum = 1 << (kWeightBits - 1);
  const uint8_t* pixel = line + window.first * stride;
  for (const int32_t weight : window.weights) {
    sum += *pixel * weight;
    pixel += stride;
  }
  return static_cast<uint8_t>(std::clamp(sum >> kWeightBits, 0, 255));
}

/// The length that a side of a picture is scaled to, and the range of it that is kept.
struct Side {
  int64_t to;
  Span kept;
};

/// Scales all lines in `rows` and returns the columns that are kept.
Picture scaled_across(const Picture& picture, Side side, Span rows) {
  const int64_t channels = picture.shape[0], height = picture.shape[1], width = picture.shape[2];
  Picture across{.shape = {channels, rows.size(), side.kept.size()}};
  const std::vector<Window> columns = side.to == width ? std::vector<Window>() : windows(width, side.to, side.kept);
  for (int64_t channel = 0; channel < channels; ++channel)
    for (int64_t row = rows.begin; row < rows.end; ++row) {
      const uint8_t* line = picture.pixels.data() + (channel * height + row) * width;
      if (columns.empty()) across.pixels.insert(across.pixels.end(), line + side.kept.begin, line + side.kept.end);
      for (const Window& column : columns) across.pixels.push_back(mean_of(column, line, 1));
    }
  return across;
}

/// Scales a picture across, then down, and computes only what is kept: the whole scaled version of a thin picture would
/// be thousands of times as large.
Picture scaled(const Picture& picture, Side down, Side along) {
  const int64_t channels = picture.shape[0], height = picture.shape[1];
  if (down.to == height) return scaled_across(picture, along, down.kept);
  const std::vector<Window> rows = windows(height, down.to, down.kept);
  const Span read{rows.front().first, rows.back().first + static_cast<int64_t>(rows.back().weights.size())};
  const Picture across = scaled_across(picture, along, read);
  const int64_t width = along.kept.size();
  Picture result{.shape = {channels, down.kept.size(), width}};
  const uint8_t* plane = across.pixels.data();
  for (int64_t channel = 0; channel < channels; ++channel, plane += read.size() * width)
    for (Window row : rows) {
      row.first -= read.begin;
      for (int64_t x = 0; x < width; ++x) result.pixels.push_back(mean_of(row, plane + x, width));
    }
  return result;
}

/// Half of what is cut off. A half is rounded to the nearest even number, as in Python.
int64_t border(int64_t side, int64_t size) {
  return static_cast<int64_t>(std::nearbyint(static_cast<double>(side - size) / 2));
}

/// The middle `size` pixels of a side, scaled by the factor that brings the shorter side to `size`.
Side middle_of(int64_t side, int64_t shorter, int64_t size) {
  const int64_t to = size * side / shorter, begin = border(to, size);
  return {.to = to, .kept = {begin, begin + size}};
}

}  // namespace

Picture scaled_to_square(const Picture& picture, int64_t size) {
  const int64_t height = picture.shape[1], width = picture.shape[2], shorter = std::min(height, width);
  return scaled(picture, middle_of(height, shorter, size), middle_of(width, shorter, size));
}

}  // namespace dptrain
