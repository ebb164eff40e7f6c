#pragma once

#include "tensor/tensor.h"

namespace dptrain::ops {

// Error feedback (Seide et al., "1-bit stochastic gradient descent", 2014; Karimireddy et al., 2019). The part of a
// step's gradients that a lossy message left out is kept and added to the next step's gradients. All tensors are f32 of
// one shape and layout. `scale`, f32 [1] or undefined for 1, is the current loss scale of fp16 gradients. The residual
// is kept unscaled, so that it survives a change of the scale.

/// residual = scale * residual + gradients: the values to send.
void take_up_residual(const Tensor& residual, const Tensor& gradients, const Tensor& scale = {});

/// residual = (residual - sent) / scale: the values that weren't sent. If the difference isn't finite, because the
/// gradients weren't, nothing counts as sent, and an infinity or NaN that was to be sent is dropped.
void leave_residual(const Tensor& residual, const Tensor& sent, const Tensor& scale = {});

}  // namespace dptrain::ops
