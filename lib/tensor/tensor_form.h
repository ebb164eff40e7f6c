#pragma once

#include "tensor/tensor.h"

namespace dptrain {

/// What a tensor is like, without its memory: all that some backward functions need to know of a value.
struct TensorForm {
  /// Not explicit: a tensor serves wherever its form is enough.
  TensorForm(const Tensor& tensor)
      : device(tensor.device()), shape(tensor.shape()), dtype(tensor.dtype()), layout(tensor.layout()) {}

  /// A tensor of this form, with whatever its memory holds.
  Tensor empty() const { return Tensor::empty(device, shape, {.dtype = dtype, .layout = layout}); }

  Device& device;
  Shape shape;
  DType dtype;
  Layout layout;
};

}  // namespace dptrain
