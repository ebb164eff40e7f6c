#include "ops/image_columns_cpu.h"

#include <algorithm>

#include "device/parallel_for.h"
#include "ops/reorder.h"

namespace dptrain::ops::cpu {
namespace {

constexpr int64_t kTileDepth = 32;

/// What one weight of the window meets in one channel of one image: pixels [begin, end) along an axis have it inside.
struct Inside {
  Inside(int64_t tap, int64_t pixels, int64_t outputs, const Conv2dOptions& options)
      : distance(tap - options.padding),
        begin(std::max(int64_t{0}, (-distance + options.stride - 1) / options.stride)),
        end(std::min(outputs, (pixels - distance + options.stride - 1) / options.stride)) {}
  int64_t distance, begin, end;
};

}  // namespace

bool fits_columns(const Tensor& weight) {
  const Shape& shape = weight.shape();
  const int64_t window = shape[2] * shape[3];
  return weight.layout() == Layout::plain && window > 1 && shape[1] * window <= kTileDepth;
}

Tensor image_columns(const Tensor& x, const Shape& weight, const Shape& y, const Conv2dOptions& options) {
  const Tensor images = reorder(x, Layout::plain, MemoryPurpose::workspace);
  const Tensor columns =
      Tensor::zeros(x.device(), {y[0], weight[1] * weight[2] * weight[3], y[2], y[3]},
                    {.dtype = DType::bf16, .layout = Layout::nchw16c, .purpose = MemoryPurpose::workspace});
  const int64_t channels = weight[1], height = x.shape()[2], width = x.shape()[3], stride = options.stride;
  const int64_t pixels = y[2] * y[3], image = columns.storage_elements() / std::max(int64_t{1}, y[0]);
  parallel_for(x.device(), y[0], [&](int64_t n) {
    const Bfloat16* from = images.data<Bfloat16>() + n * channels * height * width;
    Bfloat16* to = columns.data<Bfloat16>() + n * image;
    int64_t column = 0;
    for (int64_t c = 0; c < channels; ++c)
      for (int64_t u = 0; u < weight[2]; ++u)
        for (int64_t v = 0; v < weight[3]; ++v, ++column) {
          const Inside rows(u, height, y[2], options), along(v, width, y[3], options);
          Bfloat16* lane = to + column / 16 * pixels * 16 + column % 16;
          for (int64_t i = rows.begin; i < rows.end; ++i) {
            const Bfloat16* row = from + (c * height + i * stride + rows.distance) * width + along.distance;
            for (int64_t j = along.begin; j < along.end; ++j) lane[(i * y[3] + j) * 16] = row[j * stride];
          }
        }
  });
  return columns;
}

Tensor weights_of_columns(const Tensor& weight) {
  const Shape& shape = weight.shape();
  return weight.reshaped({shape[0], shape[1] * shape[2] * shape[3], 1, 1});
}

}  // namespace dptrain::ops::cpu
