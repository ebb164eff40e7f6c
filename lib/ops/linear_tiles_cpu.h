#pragma once

#include "ops/linear.h"

namespace dptrain::ops::cpu {

// The passes of a linear layer on the machine's matrix unit for bf16. f32 numbers are multiplied in three pieces each,
// bf16 numbers directly.

/// Whether a product of such factors is computed this way: always with AMX; with AVX-512 only if a factor is bf16.
bool multiplies_by_tiles(DType left, DType right);

void linear_forward_by_tiles(const Tensor& x, const Tensor& weight, const Tensor& bias, bool relu, const Tensor& y);

/// gradient = output_gradient * weight.
void linear_backward_data_by_tiles(const Tensor& weight, const Tensor& output_gradient, const Tensor& gradient);

/// gradient = the transpose of output_gradient * x, or gradient += it.
void linear_backward_weight_by_tiles(const Tensor& x, const Tensor& output_gradient, const Tensor& gradient,
                                     bool accumulate);

}  // namespace dptrain::ops::cpu
