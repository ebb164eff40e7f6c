#pragma once

#include "tensor/tensor.h"

namespace dptrain::ops {

/// The hyperbolic tangent, in any layout.
Tensor tanh_forward(const Tensor& x);

/// The output's gradient times 1 - y^2, from the output `y`. Both in one shape; returned in the layout of y.
Tensor tanh_backward(const Tensor& y, const Tensor& output_gradient);

}  // namespace dptrain::ops
