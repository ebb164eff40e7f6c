#pragma once

#include <vector>

#include "ops/conv2d.h"

namespace dptrain::ops {

/// A convolution as products of tiles sees it. The pixels of a group of images are one long row of positions: image
/// after image and row after row, with the zeros between that a window reaches past an edge, which neighbors share.
/// From an output's position to that of a pixel which it reads it is then equally far everywhere. With a stride, each
/// phase of the pixels, those of equal remainders of row and column, is a long row of its own.
struct ConvolutionGrid {
  /// Pixels (stride * i + row, stride * j + column) of an image.
  struct Phase {
    int64_t row, column;
  };
  /// One of the window's weights, u * KW + v, and what it is multiplied by: the source's `phase`, at the output's
  /// position + offset.
  struct Tap {
    int64_t weight, phase, offset;
  };
  /// The outputs that one product computes: pixel (stride * i + row, stride * j + column) at position i * columns + j
  /// of an image.
  struct Outputs {
    int64_t stride, row, column, height, width;
    std::vector<Tap> taps;
  };

  int64_t stride = 1;             ///< between a phase's pixels
  std::vector<Phase> phases;      ///< of the source, those that are read
  std::vector<Outputs> outputs;   ///< all of them together are the result
  int64_t rows = 0, columns = 0;  ///< of an image in the long row, with its zeros
  int64_t lead = 0;               ///< zeros before the first image
  int64_t reach = 0;              ///< the furthest offset

  int64_t image() const { return rows * columns; }
  /// Positions of a long row of so many images, when outputs are computed 32 at a time.
  int64_t length(int64_t images) const { return (images * image() + 31) / 32 * 32 + reach; }
  /// Positions from the first output to the last one.
  int64_t span(const Outputs& of, int64_t images) const {
    return (images - 1) * image() + (of.height - 1) * columns + of.width;
  }
};

/// Of x as the source: one product.
ConvolutionGrid forward_grid(const Shape& x, const Shape& weight, const Shape& y, const Conv2dOptions& options);

/// Of the output's gradient as the source: a product for each phase of x's pixels. A phase that no output reads has no
/// taps.
ConvolutionGrid backward_data_grid(const Shape& x, const Shape& weight, const Shape& y, const Conv2dOptions& options);

}  // namespace dptrain::ops
