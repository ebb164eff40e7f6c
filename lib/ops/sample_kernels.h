#pragma once

#include <cstdint>

namespace dptrain::ops {

/// Some pixels of a convolution of several samples, one sample per lane. An array of shape [.., lanes] has the samples'
/// numbers side by side.
struct SampleProduct {
  int64_t pixels;
  int64_t rows;             ///< rows of weights: the channels of a pixel of y
  int64_t segments, depth;  ///< a sum runs over `segments` runs of `depth` numbers
  const float* weights;     ///< row r, segment s at r * weight_row + s * weight_segment
  int64_t weight_row, weight_segment;
  const float* images;  ///< [depth, lanes]; pixel i, segment s at i * image_pixel + s * image_segment
  int64_t image_pixel, image_segment;
  const float* bias = nullptr;  ///< one number per row
  bool relu = false;
  float* y;  ///< [pixels, rows, lanes]
};

/// Maxima over windows of kernel x kernel pixels that don't overlap, for one row of y. x has as many rows as a window.
struct SampleMaxima {
  int64_t pixels, kernel;  ///< `pixels` is a count of y's pixels
  int64_t channels;
  const float* x;  ///< [kernel, .., channels, lanes]
  int64_t x_row;
  bool relu;        ///< y = max(0, y)
  float* y;         ///< [pixels, channels, lanes]
  uint8_t* places;  ///< [pixels, channels, lanes]: position of each maximum in its window, row by row, or kNoPlace if
                    ///< the ReLU cut it off
};

/// Adds up a weight's gradient over one sample: to[o, u, i] += the sum over the pixels (p, q) of y[p, q, o] * x[p *
/// x_row + q * x_pixel + u * x_window + i]. Vectors are read and written whole, past `width`.
struct WindowSums {
  int64_t height, width_of_y;  ///< pixels of y
  int64_t outputs;
  int64_t windows, width;  ///< rows of a window, and numbers of each row
  const float* x;
  int64_t x_row, x_pixel, x_window;
  const float* y;  ///< [height, width_of_y, outputs]
  float* to;       ///< [outputs, windows, `width` in whole vectors]
};

/// Copies windows of neighboring pixels to contiguous memory: to[pixel * to_pixel + u * width + i] =
/// x[pixel * x_pixel + u * x_window + i]. Vectors are read and written whole, past `width`.
struct WindowCopies {
  int64_t pixels, windows, width;
  const float* x;
  int64_t x_pixel, x_window;
  float* to;
  int64_t to_pixel;
};

/// Convolutions of images with few channels, on the calling thread. A vector's lanes are samples, of which there are
/// always enough, or neighboring pixels of a window. An element's terms are added in the order of the depth, whatever
/// samples share its vector.
struct SampleKernels {
  int64_t lanes;  ///< of a vector
  /// y = weights * images + bias, for `vectors` (1 or 2) vectors of samples.
  void (*multiply)(const SampleProduct& product, int64_t vectors);
  /// The first of equal values is taken, row by row, and NaN is larger than any number.
  void (*max_pool)(const SampleMaxima& maxima, int64_t vectors);
  /// Transposes [samples, length], with rows `stride` apart, to [length, lanes] of `vectors` vectors. Lanes without a
  /// sample are zero.
  void (*gather)(const float* from, int64_t stride, int64_t samples, int64_t length, int64_t vectors, float* to);
  /// The inverse of gather, for lanes that have a sample.
  void (*scatter)(const float* from, int64_t samples, int64_t length, int64_t vectors, float* to, int64_t stride);
  void (*scatter_places)(const uint8_t* from, int64_t samples, int64_t length, int64_t vectors, uint8_t* to,
                         int64_t stride);
  void (*add_windows)(const WindowSums& sums);
  /// For a width of at most `lanes`.
  void (*copy_windows)(const WindowCopies& copies);
};

const SampleKernels& sample_kernels();

}  // namespace dptrain::ops
