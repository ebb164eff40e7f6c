#pragma once

#include "ops/reorder.h"

namespace dptrain::ops::cuda {

// On a GPU, operators on images compute in nhwc.

/// Allocates images of `shape` in nhwc, with the device and type of `like`.
inline Tensor empty_nhwc(const Tensor& like, const Shape& shape) {
  return Tensor::empty(like.device(), shape, {.dtype = like.dtype(), .layout = Layout::nhwc});
}

/// Returns the images or weights in nhwc: `x` itself if it is in nhwc already, or undefined.
inline Tensor in_nhwc(const Tensor& x) { return x.defined() ? reorder(x, Layout::nhwc) : Tensor(); }

}  // namespace dptrain::ops::cuda
