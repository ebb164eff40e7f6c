#pragma once

#include "tensor/tensor.h"

namespace dptrain::ops::cpu {

/// Computes the gradient of the bias, the sum of `gradient`'s rows, and writes or adds it to `bias`, f32 [C]. gradient:
/// [..., C] in the plain layout, f32 or bf16; rows are summed in order, in double.
void bias_gradient(const Tensor& gradient, const Tensor& bias, bool accumulate);

}  // namespace dptrain::ops::cpu
