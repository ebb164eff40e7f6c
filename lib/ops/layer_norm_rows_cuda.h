#pragma once

#include "ops/layer_norm.h"

// Layer normalization of rows that fit a warp's registers, which go over memory once. What lies outside them takes the
// passes of layer_norm_cuda.cu.

namespace dptrain::ops::cuda {

/// Whether these rows do, and lie so that lanes can load 16 bytes at once. `also` may be undefined.
bool rows_fit_registers(const Tensor& x, const Tensor& also);

/// Writes all that `forward` has but its mask, which has been drawn.
void layer_norm_rows_forward(const LayerNormInputs& in, float epsilon, const LayerNormForward& forward);

/// f32 [2, parts, E]: what each part of the rows makes of the gradients of gamma, then of beta. Writes those of the
/// inputs to `of`.
Tensor layer_norm_rows_backward(const LayerNormForward& forward, const Tensor& gamma, const SummedGradient& incoming,
                                const LayerNormInputGradients& of);

}  // namespace dptrain::ops::cuda
