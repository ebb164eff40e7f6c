#pragma once

#include <cstdint>

namespace dptrain::ops {

/// The windows of max pooling over images of `lanes` channels, which are innermost: [height, width, lanes].
struct MaxPoolWindows {
  int64_t height, width, out_height, out_width;
  int64_t kernel, stride, padding;
  int64_t lanes;
};

/// The maxima of one image, on the calling thread. The first of equal values is taken, row by row, and NaN is larger
/// than any number.
struct MaxPoolKernels {
  /// y: [out_height, out_width, lanes], max(0, y) with `relu`. places: the position of each maximum in its window, row
  /// by row, or kNoPlace if the ReLU cut it off.
  void (*forward)(const MaxPoolWindows& windows, const float* x, bool relu, float* y, uint8_t* places);
  void (*backward)(const MaxPoolWindows& windows, const float* incoming, const uint8_t* places, float* gradient);
};

const MaxPoolKernels& max_pool_kernels();

}  // namespace dptrain::ops
