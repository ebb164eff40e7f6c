#pragma once

#include <cstdint>

namespace dptrain::ops {

/// The gradient that a maximum passes on to the one pixel of its window that it came from.
struct Share {
  float gradient;
  int32_t at;  ///< an offset to what the gradient is multiplied by
};

/// Lists of shares are copied in whole vectors, which may write this many shares past the end.
inline constexpr int64_t kShareMargin = 8;

/// The maxima of one sample with their gradients, [height, width, channels], over windows of kernel x kernel that
/// neither overlap nor hang over the edge.
struct MaximaGradients {
  int64_t height, width, channels, kernel;
  const float* gradients;
  const uint8_t* places;  ///< position of each maximum in its window, row by row, or kNoPlace
};

/// The shares of each output channel of a convolution, for the gradient of its weights. They are in row-major order of
/// the convolution's output pixels.
struct SharesOfOutputs {
  int64_t x_row, x_pixel;  ///< strides of the convolution's input; a share's `at` is where its window begins there
  int64_t most_shares;     ///< room per output channel: height * width + kShareMargin
  Share* shares;           ///< [channels, most_shares]
  int32_t* counts;         ///< [channels]
  Share* row_shares;       ///< scratch: [kernel, channels, width + kShareMargin]
  int32_t* row_counts;     ///< scratch: [kernel, channels]
};

/// The shares of each output pixel of a convolution, for the gradient of its input.
struct SharesOfPixels {
  int64_t weight_step;  ///< a share's `at` is its output channel times this
  Share* shares;        ///< [height, width, kernel * kernel, channels]
  int32_t* counts;      ///< [height, width, kernel * kernel]
};

/// Adds up a weight's gradient over one sample: to[o, u, i] += the sum over the shares s of output o of s.gradient *
/// x[s.at + u * x_row + i]. Vectors are read and written whole, past `width`.
struct ShareSums {
  int64_t outputs, most_shares;  ///< `shares` is [outputs, most_shares]
  const Share* shares;
  const int32_t* counts;
  int64_t windows, width;  ///< rows of a window, and numbers of each row
  const float* x;
  int64_t x_row;
  float* to;  ///< [outputs, windows, width_in_vectors(width)]
};

/// Computes the gradient of a convolution's input, which must be zero before: for the window of each pixel,
/// x[u * x_row + i] += the sum over the pixel's shares s of s.gradient * weights[u, s.at + i]. Vectors are read and
/// written whole, past `width`.
struct ShareSpread {
  int64_t height,
      width_of_y;  ///< pixels that have shares; the pixels of one maximum's window are contiguous in `shares`
  int64_t kernel, outputs;
  const Share* shares;
  const int32_t* counts;
  int64_t windows, width;
  const float* weights;  ///< [windows, outputs, width_in_vectors(width)], zero past `width`
  float* x;
  int64_t x_row, x_pixel;
};

/// Gradients of a convolution whose outputs go to a max pool, on the calling thread. In each window of the pool only
/// one output has a gradient other than zero, so the rest are left out. A sample's terms are added in a fixed order, so
/// its bits depend on nothing else.
struct Conv2dMaxPoolKernels {
  /// Numbers of a window's row, rounded up to whole vectors.
  int64_t (*width_in_vectors)(int64_t width);
  /// to[i] = gradients[i], or zero if places[i] is kNoPlace.
  void (*mask)(const float* gradients, const uint8_t* places, int64_t count, float* to);
  /// Maxima whose gradient is zero get no share.
  void (*share_by_output)(const MaximaGradients& maxima, const SharesOfOutputs& to);
  void (*share_by_pixel)(const MaximaGradients& maxima, const SharesOfPixels& to);
  void (*add_shares)(const ShareSums& sums);
  void (*spread_shares)(const ShareSpread& spread);
};

const Conv2dMaxPoolKernels& conv2d_max_pool_kernels();

}  // namespace dptrain::ops
