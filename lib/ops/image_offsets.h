#pragma once

#include <cstdint>

#include "tensor/tensor.h"

namespace dptrain::ops {

/// Storage offsets of a [N, C, H, W] tensor's elements in any layout: offset(n, c, p) with p = h * W + w.
class ImageOffsets {
 public:
  explicit ImageOffsets(const Tensor& x) {
    const Shape& shape = x.shape();
    positions_ = shape[2] * shape[3];
    block_ = x.layout() == Layout::nhwc ? shape[1] : layout_block(x.layout());
    sample_stride_ = shape[0] > 0 ? x.storage_elements() / shape[0] : 0;
  }

  int64_t operator()(int64_t n, int64_t c, int64_t p) const {
    return n * sample_stride_ + (c / block_ * positions_ + p) * block_ + c % block_;
  }
  /// Elements from one position of a channel to the next.
  int64_t position_stride() const { return block_; }

 private:
  int64_t positions_ = 0;
  int64_t block_ = 1;
  int64_t sample_stride_ = 0;
};

}  // namespace dptrain::ops
