#pragma once

#include "tensor/tensor.h"

namespace dptrain::ops {

/// max(0, x), in any layout; a NaN stays one.
Tensor relu_forward(const Tensor& x);

/// The output's gradient where the output `y` is positive, else 0. Both in one layout.
Tensor relu_backward(const Tensor& y, const Tensor& output_gradient);

}  // namespace dptrain::ops
