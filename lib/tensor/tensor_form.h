#pragma once

#include "tensor/tensor.h"

namespace dptrain {

/// A tensor's properties without its memory. Some backward functions need to know no more of a value.
struct TensorForm {
  /// Not explicit, so that a tensor can be passed wherever its form is enough.
  TensorForm(const Tensor& tensor)
      : device(tensor.device()), shape(tensor.shape()), dtype(tensor.dtype()), layout(tensor.layout()) {}

  /// Makes a tensor of this form. Its content is undefined.
  Tensor empty() const { return Tensor::empty(device, shape, {.dtype = dtype, .layout = layout}); }

  Device& device;
  Shape shape;
  DType dtype;
  Layout layout;
};

}  // namespace dptrain
