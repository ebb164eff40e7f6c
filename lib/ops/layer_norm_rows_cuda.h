#pragma once

#include "ops/layer_norm.h"

// Layer normalization of rows that fit a warp's registers. It goes over memory once. Other rows take the passes of
// layer_norm_cuda.cu.

namespace dptrain::ops::cuda {

/// Whether the rows of x fit a warp's registers, and lanes can load 16 bytes of x and of `also` at once. `also` may be
/// undefined.
bool rows_fit_registers(const Tensor& x, const Tensor& also);

/// Writes all tensors of `forward` except its mask, which must have been drawn before.
void layer_norm_rows_forward(const LayerNormInputs& in, float epsilon, const LayerNormForward& forward);

/// Writes the gradients of the inputs to `of`. Returns f32 [2, parts, E]: the sums of each part of the rows for the
/// gradient of gamma, then for that of beta.
Tensor layer_norm_rows_backward(const LayerNormForward& forward, const Tensor& gamma, const SummedGradient& incoming,
                                const LayerNormInputGradients& of);

}  // namespace dptrain::ops::cuda
