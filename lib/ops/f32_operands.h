#pragma once

#include "tensor/tensor.h"

// How CPU workers compute with bf16 where oneDNN computes: operands are widened to f32 in workspace, as whole tensors
// or, if samples are independent, a few samples at a time.

namespace dptrain::ops::cpu {

/// Returns the tensor as f32 in this layout; the tensor itself if it is that already.
Tensor as_f32(const Tensor& x, Layout layout);

/// Returns an f32 tensor in which to compute the values of `y`: y itself if it is f32. `round_into` then writes them to
/// y.
Tensor f32_for(const Tensor& y);
void round_into(const Tensor& computed, const Tensor& y);

/// Returns how many samples of images are widened at once, at least one: all of an f32 tensor, which needs no widening,
/// and otherwise as many as fit the caches.
int64_t samples_at_once(const Tensor& images);

}  // namespace dptrain::ops::cpu
