#pragma once

#include "tensor/tensor.h"

namespace dptrain::ops {

/// Avoids a division by a norm of zero; the same value as PyTorch's.
inline constexpr double kClipEpsilon = 1e-6;

/// Returns the factor for the gradients, f32 [1]: `factor` (f32 [1], or undefined for 1), lowered as far as needed to
/// bring their norm down to `most` (PyTorch's clip_grad_norm_). squares: the sum of squares of all gradients
/// (square_sum.h). If the norm is NaN, the factor doesn't change.
Tensor clip_factor(const Tensor& squares, double most, const Tensor& factor = {});

}  // namespace dptrain::ops
