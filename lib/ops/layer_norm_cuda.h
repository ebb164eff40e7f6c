#pragma once

#include "ops/layer_norm.h"

namespace dptrain::ops::cuda {

/// Writes all tensors of `forward`.
void layer_norm_forward(const LayerNormInputs& in, float epsilon, const LayerNormForward& forward);

/// Writes the gradients of the inputs to `of`, and those of the parameters to `gradients`.
void layer_norm_backward(const LayerNormForward& forward, const Tensor& gamma, SummedGradient incoming,
                         const LayerNormParameterGradients& gradients, const LayerNormInputGradients& of);

}  // namespace dptrain::ops::cuda
