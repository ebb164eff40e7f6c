#pragma once

#include "tensor/tensor.h"

namespace dptrain::ops {

/// Keeps a norm of zero from being divided by; PyTorch's.
inline constexpr double kClipEpsilon = 1e-6;

/// What gradients are to be multiplied by, f32 [1]: `factor` (f32 [1], or undefined for 1), and as much less than that
/// as brings their norm down to `most` (PyTorch's clip_grad_norm_). squares: the sum of all gradients' (square_sum.h).
/// A norm that is no number leaves the factor as it is.
Tensor clip_factor(const Tensor& squares, double most, const Tensor& factor = {});

}  // namespace dptrain::ops
