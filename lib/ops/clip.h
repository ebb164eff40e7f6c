#pragma once

#include "tensor/tensor.h"

namespace dptrain::ops {

/// Keeps a norm of zero from being divided by; PyTorch's.
inline constexpr double kClipEpsilon = 1e-6;

/// What gradients are to be multiplied by, f32 [1]: `factor` (f32 [1], or undefined for 1), and as much less than that
/// as brings their norm down to `most` (PyTorch's clip_grad_norm_). gradients: flat f32, all of a model. A norm that is
/// no number leaves the factor as it is.
Tensor clip_factor(const Tensor& gradients, double most, const Tensor& factor = {});

// The same of gradients whose ranges lie on several devices:

/// Writes the sum of the squares of a range (flat f32) to `sum`, f64 [1]. The same bits for any number of threads.
void sum_of_squares(const Tensor& gradients, const Tensor& sum);

/// The factor of clip_factor, from the sums of squares of all ranges, f64 [ranges], added in their order. Sums are in
/// double and the factor is f32: that they are added by other ranges hardly ever shows in it.
Tensor clip_factor_of_ranges(const Tensor& sums, double most, const Tensor& factor = {});

}  // namespace dptrain::ops
