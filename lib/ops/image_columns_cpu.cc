#include "ops/image_columns_cpu.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <vector>

#include "device/parallel_for.h"
#include "ops/reorder.h"

namespace dptrain::ops::cpu {
namespace {

constexpr int64_t kTileDepth = 32;

/// Numbers of a row that are copied at once; they may be read past the row's end.
constexpr int64_t kCopied = 8;

/// A plain image with its padding, so that each window is inside it.
class PaddedImage {
 public:
  PaddedImage(const Shape& x, int64_t padding, Bfloat16* memory)
      : channels_(x[1]),
        pixels_(x[2]),
        padding_(padding),
        height_(x[2] + 2 * padding),
        width_(x[3] + 2 * padding),
        memory_(memory) {}

  int64_t elements() const { return channels_ * height_ * width_ + kCopied; }
  /// Copies an image between the padding, which must be zero already.
  void read(const Bfloat16* image) const {
    const int64_t count = width_ - 2 * padding_;
    for (int64_t row = 0; row < channels_ * pixels_; ++row)
      std::memcpy(at(row / pixels_, row % pixels_ + padding_, padding_), image + row * count,
                  static_cast<size_t>(count) * sizeof(Bfloat16));
  }
  int64_t offset(int64_t channel, int64_t row, int64_t column) const {
    return (channel * height_ + row) * width_ + column;
  }
  Bfloat16* at(int64_t channel, int64_t row, int64_t column) const { return memory_ + offset(channel, row, column); }

 private:
  int64_t channels_, pixels_, padding_, height_, width_;
  Bfloat16* memory_;
};

/// A row of the window: its offset from the window's place in the padded image, and its first lane.
struct WindowRow {
  int64_t offset, lane;
};

/// Writes a pixel's lanes. Numbers copied past a row's end are overwritten by the next row; after the last row no
/// weights multiply them.
void write_lanes(const Bfloat16* window, std::span<const WindowRow> rows, int64_t along, Bfloat16* lanes) {
  std::memset(static_cast<void*>(lanes), 0, kTileDepth * sizeof(Bfloat16));
  for (const WindowRow& row : rows)
    for (int64_t v = 0; v < along; v += kCopied) {
      const Bfloat16* from = window + row.offset + v;
      const int64_t room = kTileDepth - row.lane - v;
      if (room >= kCopied)
        std::memcpy(lanes + row.lane + v, from, kCopied * sizeof(Bfloat16));
      else
        std::memcpy(lanes + row.lane + v, from, static_cast<size_t>(room) * sizeof(Bfloat16));
    }
}

}  // namespace

bool fits_columns(const Shape& weight) {
  const int64_t window = weight[2] * weight[3];
  return window > 1 && weight[1] * window <= kTileDepth;
}

bool fits_columns(const Tensor& weight) { return weight.layout() == Layout::plain && fits_columns(weight.shape()); }

int64_t images_of_columns(const Shape& y) {
  // 2 MB: the columns are read while they are in the caches, and are small compared with the images.
  constexpr int64_t kElements = 1024 * 1024;
  return std::max(int64_t{1}, kElements / std::max(int64_t{1}, y[2] * y[3] * kTileDepth));
}

Tensor image_columns(const Tensor& x, const Shape& weight, const Shape& y, const Conv2dOptions& options) {
  Device& device = x.device();
  const Tensor images = reorder(x, Layout::plain, MemoryPurpose::workspace);
  const TensorOptions workspace{.dtype = DType::bf16, .layout = Layout::nhwc, .purpose = MemoryPurpose::workspace};
  const Tensor columns = Tensor::empty(device, {y[0], kTileDepth, y[2], y[3]}, workspace);
  const PaddedImage form(x.shape(), options.padding, nullptr);
  const int64_t room = form.elements();
  const int64_t image = x.elements() / std::max(int64_t{1}, y[0]), height = y[2], width = y[3];
  const int64_t stride = options.stride, along = weight[3];
  std::vector<WindowRow> rows;
  for (int64_t c = 0; c < weight[1]; ++c)
    for (int64_t u = 0; u < weight[2]; ++u)
      rows.push_back({.offset = form.offset(c, u, 0), .lane = (c * weight[2] + u) * along});
  const Tensor padded = Tensor::zeros(device, {device.threads(), room, 1, 1}, workspace);
  parallel_parts(device, y[0], 1, [&](int64_t part, int64_t begin, int64_t end) {
    const PaddedImage source(x.shape(), options.padding, padded.data<Bfloat16>() + part * room);
    for (int64_t n = begin; n < end; ++n) {
      source.read(images.data<Bfloat16>() + n * image);
      Bfloat16* lanes = columns.data<Bfloat16>() + n * height * width * kTileDepth;
      for (int64_t i = 0; i < height; ++i)
        for (int64_t j = 0; j < width; ++j, lanes += kTileDepth)
          write_lanes(source.at(0, i * stride, j * stride), rows, along, lanes);
    }
  });
  return columns;
}

Tensor weights_of_columns(const Tensor& weight) {
  const Shape& shape = weight.shape();
  return weight.reshaped({shape[0], shape[1] * shape[2] * shape[3], 1, 1});
}

}  // namespace dptrain::ops::cpu
