#pragma once

#include "ops/reorder.h"

namespace dptrain::ops::cuda {

// On a GPU, operators on images compute in nhwc.

/// Memory for images of `shape` in nhwc, on the device and of the type of `like`.
inline Tensor empty_nhwc(const Tensor& like, const Shape& shape) {
  return Tensor::empty(like.device(), shape, {.dtype = like.dtype(), .layout = Layout::nhwc});
}

/// The images, or weights, in nhwc: `x` itself where it lies so or is undefined.
inline Tensor in_nhwc(const Tensor& x) { return x.defined() ? reorder(x, Layout::nhwc) : Tensor(); }

}  // namespace dptrain::ops::cuda
