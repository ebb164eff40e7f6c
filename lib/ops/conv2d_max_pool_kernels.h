#pragma once

#include <cstdint>

namespace dptrain::ops {

/// A gradient that a maximum passes on to the one pixel of its window that it came from.
struct Share {
  float gradient;
  int32_t at;  ///< what it multiplies: an offset
};

/// Lists of shares are copied by whole vectors.
inline constexpr int64_t kShareMargin = 8;

/// The maxima of one sample with their gradients, [height, width, channels], over windows of kernel x kernel that
/// neither overlap nor hang over.
struct MaximaGradients {
  int64_t height, width, channels, kernel;
  const float* gradients;
  const uint8_t* places;  ///< in its window, row by row, or kNoPlace
};

/// The shares of each output of a convolution, for the gradient of its weights: row by row of the pixels, as if all of
/// them had been gone through.
struct SharesOfOutputs {
  int64_t x_row, x_pixel;  ///< of the convolution's input: a share is `at` its window's beginning there
  int64_t most_shares;     ///< of an output: height * width, and kShareMargin more
  Share* shares;           ///< [channels, most_shares]
  int32_t* counts;         ///< [channels]
  Share* row_shares;       ///< room: [kernel, channels, width + kShareMargin]
  int32_t* row_counts;     ///< room: [kernel, channels]
};

/// The shares of each of its pixels, for the gradient of its input.
struct SharesOfPixels {
  int64_t weight_step;  ///< a share is `at` its output times this
  Share* shares;        ///< [height, width, kernel * kernel, channels]
  int32_t* counts;      ///< [height, width, kernel * kernel]
};

/// The sums of a weight's gradient over one sample: to[o, u, i] += the sum over the shares s of output o of s.gradient
/// * x[s.at + u * x_row + i]. Vectors are read and written whole, past `width`.
struct ShareSums {
  int64_t outputs, most_shares;  ///< [outputs, most_shares]
  const Share* shares;
  const int32_t* counts;
  int64_t windows, width;  ///< rows of a window, and numbers of each
  const float* x;
  int64_t x_row;
  float* to;  ///< [outputs, windows, width_in_vectors(width)]
};

/// The gradient of a convolution's input, zero before: x[u * x_row + i] of the window of each pixel += the sum over the
/// pixel's shares s of s.gradient * weights[u, s.at + i]. Vectors are read and written whole, past `width`.
struct ShareSpread {
  int64_t height, width_of_y;  ///< pixels that have shares, those of a maximum's window one after the other
  int64_t kernel, outputs;
  const Share* shares;
  const int32_t* counts;
  int64_t windows, width;
  const float* weights;  ///< [windows, outputs, width_in_vectors(width)], zero past `width`
  float* x;
  int64_t x_row, x_pixel;
};

/// The gradients of a convolution whose outputs go to a max pool, on the calling thread: all of them but one of a
/// window are zero, and left out. A sample's terms are added in a fixed order, so that its bits depend on nothing else.
struct Conv2dMaxPoolKernels {
  /// Numbers of a row of a window in whole vectors.
  int64_t (*width_in_vectors)(int64_t width);
  /// to[i] = gradients[i], zero where places[i] is kNoPlace.
  void (*mask)(const float* gradients, const uint8_t* places, int64_t count, float* to);
  /// Gradients that are zero get no share.
  void (*share_by_output)(const MaximaGradients& maxima, const SharesOfOutputs& to);
  void (*share_by_pixel)(const MaximaGradients& maxima, const SharesOfPixels& to);
  void (*add_shares)(const ShareSums& sums);
  void (*spread_shares)(const ShareSpread& spread);
};

const Conv2dMaxPoolKernels& conv2d_max_pool_kernels();

}  // namespace dptrain::ops
