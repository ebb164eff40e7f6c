#pragma once

#include "tensor/tensor.h"

namespace dptrain::ops::cpu {

/// The gradient with respect to the bias: the sum of `gradient`'s rows, written to f32 [C] or added to it. gradient:
/// [..., C] in the plain layout, f32 or bf16; its rows are summed one after the other, in double.
void bias_gradient(const Tensor& gradient, const Tensor& bias, bool accumulate);

}  // namespace dptrain::ops::cpu
