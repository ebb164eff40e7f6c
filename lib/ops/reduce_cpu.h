#pragma once

#include "tensor/tensor_form.h"

namespace dptrain::ops::cpu {

/// Returns factor * (the sum of all elements), f32 [1].
Tensor scaled_sum(const Tensor& x, double factor);
/// Returns factor * value[0] at every element, in the type, shape and layout of `like`.
Tensor spread(const Tensor& value, double factor, const TensorForm& like);

}  // namespace dptrain::ops::cpu
