#pragma once

#include "tensor/tensor_form.h"

namespace dptrain::ops::cuda {

/// Returns factor * (the sum of all elements), f32 [1].
Tensor scaled_sum(const Tensor& x, double factor);
/// Returns a tensor of the type, shape and layout of `like` whose elements are all factor * value[0].
Tensor spread(const Tensor& value, double factor, const TensorForm& like);

}  // namespace dptrain::ops::cuda
