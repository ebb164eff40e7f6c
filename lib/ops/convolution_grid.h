#pragma once

#include <vector>

#include "ops/conv2d.h"

namespace dptrain::ops {

/// A convolution in the form that products of tiles use. The pixels of a group of images form one long row of
/// positions, image after image and row after row. Zeros between them serve the windows that reach past an edge;
/// neighbors share these zeros. The distance from an output's position to a pixel that it reads is then the same
/// everywhere. With a stride, each phase of the pixels (equal remainders of row and column) is a long row of its own.
struct ConvolutionGrid {
  /// The pixels (stride * i + row, stride * j + column) of an image.
  struct Phase {
    int64_t row, column;
  };
  /// One weight of the window, u * KW + v. It is multiplied by the source's `phase` at the output's position + offset.
  struct Tap {
    int64_t weight, phase, offset;
  };
  /// The outputs that one product computes: pixel (stride * i + row, stride * j + column) is at position i * columns +
  /// j of an image.
  struct Outputs {
    int64_t stride, row, column, height, width;
    std::vector<Tap> taps;
  };

  int64_t stride = 1;             ///< between a phase's pixels
  std::vector<Phase> phases;      ///< phases of the source that are read
  std::vector<Outputs> outputs;   ///< all of them together are the result
  int64_t rows = 0, columns = 0;  ///< of an image in the long row, including its zeros
  int64_t lead = 0;               ///< zeros before the first image
  int64_t reach = 0;              ///< the largest offset

  int64_t image() const { return rows * columns; }
  /// Positions of a long row of `images` images if outputs are computed 32 at a time.
  int64_t length(int64_t images) const { return (images * image() + 31) / 32 * 32 + reach; }
  /// Number of positions from the first output to the last.
  int64_t span(const Outputs& of, int64_t images) const {
    return (images - 1) * image() + (of.height - 1) * columns + of.width;
  }
};

/// The grid with x as the source; it has one product.
ConvolutionGrid forward_grid(const Shape& x, const Shape& weight, const Shape& y, const Conv2dOptions& options);

/// The grid with the output's gradient as the source; it has one product for each phase of x's pixels. A phase that no
/// output reads has no taps.
ConvolutionGrid backward_data_grid(const Shape& x, const Shape& weight, const Shape& y, const Conv2dOptions& options);

}  // namespace dptrain::ops
