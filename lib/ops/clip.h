#pragma once

#include "tensor/tensor.h"

namespace dptrain::ops {

/// Keeps a norm of zero from being divided by; PyTorch's.
inline constexpr double kClipEpsilon = 1e-6;

/// What gradients are to be multiplied by, f32 [1]: `factor` (f32 [1], or undefined for 1), and as much less than that
/// as brings their norm down to `most` (PyTorch's clip_grad_norm_). gradients: flat f32, all of a model. A norm that is
/// no number leaves the factor as it is.
Tensor clip_factor(const Tensor& gradients, double most, const Tensor& factor = {});

// The same in two steps, for gradients that lie on several devices: the squares of each, added up, are those of all.

/// f64 [1]: the sum of the squares of `gradients`, flat f32. Added in the same order for any number of threads.
Tensor sum_of_squares(const Tensor& gradients);
/// What clip_factor makes of gradients whose squares add up to `squares`, f64 [1].
Tensor clip_factor_of(const Tensor& squares, double most, const Tensor& factor = {});

}  // namespace dptrain::ops
