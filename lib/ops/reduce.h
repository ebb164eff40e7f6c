#pragma once

#include "tensor/tensor_form.h"

namespace dptrain::ops {

enum class Reduction { sum, mean };

/// The sum or mean of all logical elements as f32 [1]. The order of additions is fixed by the shape, not by the
/// threads.
Tensor reduce_forward(const Tensor& x, Reduction reduction);

/// The gradient with respect to x, in the layout of x: the incoming number at every element, or its share of the mean.
Tensor reduce_backward(const TensorForm& x, const Tensor& output_gradient, Reduction reduction);

}  // namespace dptrain::ops
