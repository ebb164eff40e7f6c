#pragma once

#include <cstdint>

namespace dptrain::ops {

/// The windows of a maximum over images of `lanes` channels, which are innermost: [height, width, lanes].
struct MaxPoolWindows {
  int64_t height, width, out_height, out_width;
  int64_t kernel, stride, padding;
  int64_t lanes;
};

/// The maxima of one image, on the calling thread. Of equal ones the first counts, row by row, and a NaN is the largest
/// of all.
struct MaxPoolKernels {
  /// y: [out_height, out_width, lanes], max(0, y) with `relu`; places: where in its window each maximum lies, row by
  /// row, or kNoPlace where the ReLU cut it.
  void (*forward)(const MaxPoolWindows& windows, const float* x, bool relu, float* y, uint8_t* places);
  void (*backward)(const MaxPoolWindows& windows, const float* incoming, const uint8_t* places, float* gradient);
};

const MaxPoolKernels& max_pool_kernels();

}  // namespace dptrain::ops
