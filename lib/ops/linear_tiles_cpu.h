#pragma once

#include "ops/linear.h"

namespace dptrain::ops::cpu {

// The passes of a linear layer by AMX: ops/linear_cpu.h takes them where tile_kernels() isn't null. Numbers of f32 are
// multiplied in three pieces each, those of bf16 as they are.

void linear_forward_by_tiles(const Tensor& x, const Tensor& weight, const Tensor& bias, bool relu, const Tensor& y);

/// gradient = output_gradient * weight.
void linear_backward_data_by_tiles(const Tensor& weight, const Tensor& output_gradient, const Tensor& gradient);

/// gradient = the transpose of output_gradient * x, or gradient += that.
void linear_backward_weight_by_tiles(const Tensor& x, const Tensor& output_gradient, const Tensor& gradient,
                                     bool accumulate);

}  // namespace dptrain::ops::cpu
