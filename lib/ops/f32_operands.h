#pragma once

#include "tensor/tensor.h"

// How CPU workers compute with bf16 where oneDNN does: its operands are widened to whole f32 tensors in workspace, or a
// few samples at a time where every sample stands for itself.

namespace dptrain::ops::cpu {

/// The tensor as f32 in this layout: itself where it is that already.
Tensor as_f32(const Tensor& x, Layout layout);

/// f32 for the values of `y` to be computed in: y itself where it is f32. `round_into` brings them to y.
Tensor f32_for(const Tensor& y);
void round_into(const Tensor& computed, const Tensor& y);

/// How many samples of images are widened at once, one at least: all of an f32 tensor, whose values lie there already,
/// and of another as many as fit the caches.
int64_t samples_at_once(const Tensor& images);

}  // namespace dptrain::ops::cpu
