#pragma once

#include <cstdint>

namespace dptrain::ops {

/// Some pixels of a convolution of several samples, a lane each: what is said to be [.., lanes] has the samples'
/// numbers next to each other.
struct SampleProduct {
  int64_t pixels;
  int64_t rows;             ///< of weights: the channels of a pixel of y
  int64_t segments, depth;  ///< what is summed: runs of so many numbers
  const float* weights;     ///< of row r and segment s at r * weight_row + s * weight_segment
  int64_t weight_row, weight_segment;
  const float* images;  ///< [depth, lanes] of pixel i and segment s at i * image_pixel + s * image_segment
  int64_t image_pixel, image_segment;
  const float* bias = nullptr;  ///< by row
  bool relu = false;
  float* y;  ///< [pixels, rows, lanes]
};

/// Maxima over windows of kernel x kernel pixels that don't overlap, of as many rows of x as a window has.
struct SampleMaxima {
  int64_t pixels, kernel;  ///< of y
  int64_t channels;
  const float* x;  ///< [kernel, .., channels, lanes]
  int64_t x_row;
  bool relu;        ///< y = max(0, y)
  float* y;         ///< [pixels, channels, lanes]
  uint8_t* places;  ///< likewise: where in its window each maximum lies, row by row, or kNoPlace where the ReLU cut it
};

/// The sums of a weight's gradient over one sample: to[o, u, i] += the sum over the pixels (p, q) of y[p, q, o] *
/// x[p * x_row + q * x_pixel + u * x_window + i]. Vectors are read and written whole, past `width`.
struct WindowSums {
  int64_t height, width_of_y;  ///< pixels
  int64_t outputs;
  int64_t windows, width;  ///< rows of a window, and numbers of each
  const float* x;
  int64_t x_row, x_pixel, x_window;
  const float* y;  ///< [height, width_of_y, outputs]
  float* to;       ///< [outputs, windows, `width` in whole vectors]
};

/// Windows of neighboring pixels, copied one after the other: to[pixel * to_pixel + u * width + i] = x[pixel * x_pixel
/// + u
/// * x_window + i]. Vectors are read and written whole, past `width`.
struct WindowCopies {
  int64_t pixels, windows, width;
  const float* x;
  int64_t x_pixel, x_window;
  float* to;
  int64_t to_pixel;
};

/// Convolutions of images with few channels, on the calling thread: a vector's lanes are samples, of which there are
/// always enough, or neighboring pixels of a window. An element's terms are added in the order of the depth, whatever
/// samples share its vector.
struct SampleKernels {
  int64_t lanes;  ///< of a vector
  /// y = weights * images + bias, of `vectors` vectors of samples, 1 or 2.
  void (*multiply)(const SampleProduct& product, int64_t vectors);
  /// Of equal numbers the first counts, row by row, and a NaN is the largest of all.
  void (*max_pool)(const SampleMaxima& maxima, int64_t vectors);
  /// [samples, length], rows `stride` apart, to [length, lanes] of `vectors` vectors; lanes without a sample are zero.
  void (*gather)(const float* from, int64_t stride, int64_t samples, int64_t length, int64_t vectors, float* to);
  /// The way back, of lanes that have a sample.
  void (*scatter)(const float* from, int64_t samples, int64_t length, int64_t vectors, float* to, int64_t stride);
  void (*scatter_places)(const uint8_t* from, int64_t samples, int64_t length, int64_t vectors, uint8_t* to,
                         int64_t stride);
  void (*add_windows)(const WindowSums& sums);
  /// Of a width of at most `lanes`.
  void (*copy_windows)(const WindowCopies& copies);
};

const SampleKernels& sample_kernels();

}  // namespace dptrain::ops
