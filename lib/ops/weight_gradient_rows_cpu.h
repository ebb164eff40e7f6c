#pragma once

#include "ops/convolution_grid.h"
#include "ops/tile_images_cpu.h"
#include "ops/tile_weight_gradient.h"

// The two factors of a weight's gradient as tiles read them, one chunk of images at a time, in their own memory.

namespace dptrain::ops::cpu {

struct Range {
  int64_t begin, end;
};

/// The input that taps read, as pairs of positions: one copy of pairs that begin at even positions and one at odd
/// positions, so that each offset finds its pairs. Each long row is
/// [2 starts][2 halves of the channels][length / 2 pairs, 16 channels, 2].
class PairedInput {
 public:
  PairedInput(const ConvolutionGrid& grid, const Tensor& x, int64_t length)
      : length_(length), rows_(grid, x), memory_(packed_memory(x.device(), rows_.count() * row())) {}

  int64_t planes() const { return rows_.planes(); }
  int64_t rows() const { return rows_.count(); }
  const Bfloat16* plane(int64_t plane) const { return memory_.data<Bfloat16>() + plane * rows_.phases() * row(); }
  /// Returns where a tap's input for one half of the channels begins in a plane.
  int64_t start(const ConvolutionGrid::Tap& tap, int64_t half_of_channels) const {
    return tap.phase * row() + (tap.offset % 2 * 2 + half_of_channels) * half() + tap.offset / 2 * 32;
  }
  /// Packs positions [from, to) of a row of these images.
  void pack(int64_t row, Range images, Range positions) const {
    Bfloat16* even = memory_.data<Bfloat16>() + row * this->row() + positions.begin * 16;
    Bfloat16* const starts[] = {even, even + 2 * half()};
    weight_gradient_tile_kernels()->pack_pairs(rows_.row(row, images.begin, images.end), positions.begin, positions.end,
                                               starts, half());
  }

 private:
  int64_t half() const { return length_ * 16; }
  int64_t row() const { return 4 * half(); }

  int64_t length_;
  TileRows rows_;
  Tensor memory_;
};

/// The output's gradient as rows of positions.
class GradientRows {
 public:
  GradientRows(const ConvolutionGrid& grid, const Tensor& gradient, int64_t length)
      : length_(length),
        rows_(grid, gradient),
        memory_(packed_memory(gradient.device(), rows_.count() * length * 32)) {}

  int64_t planes() const { return rows_.planes(); }
  const Bfloat16* plane(int64_t plane) const { return memory_.data<Bfloat16>() + plane * length_ * 32; }
  void pack(int64_t plane, Range images, Range positions) const {
    weight_gradient_tile_kernels()->pack_rows(rows_.row(plane, images.begin, images.end), positions.begin,
                                              positions.end,
                                              memory_.data<Bfloat16>() + (plane * length_ + positions.begin) * 32);
  }
  /// Adds the positions of each of a plane's 32 channels to sums[32].
  void add_to(double* sums, int64_t plane, Range images) const {
    weight_gradient_tile_kernels()->add_positions(rows_.row(plane, images.begin, images.end), 0, length_, sums);
  }

 private:
  int64_t length_;
  TileRows rows_;
  Tensor memory_;
};

}  // namespace dptrain::ops::cpu
