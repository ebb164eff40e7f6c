#pragma once

#include "tensor/tensor.h"

namespace dptrain::ops {

// Error feedback (Seide et al., "1-bit stochastic gradient descent", 2014; Karimireddy et al., 2019): what a lossy
// message left out of a step's gradients is kept, and joins the next step's. All tensors are f32 of one shape and
// layout. `scale`, f32 [1] or undefined for 1, is what gradients are multiplied by at the moment, in fp16; what is kept
// isn't, so that it outlives a change.

/// residual = scale * residual + gradients: what there is to be sent.
void take_up_residual(const Tensor& residual, const Tensor& gradients, const Tensor& scale = {});

/// residual = (residual - sent) / scale: what stays. Where that isn't finite, as the gradients weren't, nothing counts
/// as sent, and an infinity or a NaN that was to be sent is dropped.
void leave_residual(const Tensor& residual, const Tensor& sent, const Tensor& scale = {});

}  // namespace dptrain::ops
