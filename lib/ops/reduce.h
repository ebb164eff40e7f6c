#pragma once

#include "tensor/tensor_form.h"

namespace dptrain::ops {

enum class Reduction { sum, mean };

/// Returns the sum or mean of all logical elements as f32 [1]. The shape alone fixes the order of additions, not the
/// number of threads.
Tensor reduce_forward(const Tensor& x, Reduction reduction);

/// Returns the gradient with respect to x, in the layout of x: at every element the incoming number, or its share for a
/// mean.
Tensor reduce_backward(const TensorForm& x, const Tensor& output_gradient, Reduction reduction);

}  // namespace dptrain::ops
