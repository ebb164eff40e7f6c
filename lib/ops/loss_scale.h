#pragma once

#include "tensor/tensor.h"

namespace dptrain::ops {

/// State of a dynamic loss scale (Micikevicius et al., "Mixed precision training", 2018), for GPUs. It is in the
/// device's memory, so that no step waits for the host.
struct LossScaleState {
  Tensor scale;    ///< f32 [1]: the factor of losses
  Tensor inverse;  ///< f32 [1]: 1 / scale
  Tensor found;    ///< i32 [1]: 1 if this step's gradients contain an infinity or a NaN
  Tensor good;     ///< i32 [1]: steps without infinity or NaN since the scale last changed
  Tensor skipped;  ///< i64 [1]: steps with infinity or NaN since the beginning
};

/// Sets `found` to 1 if a gradient (flat f32) isn't finite, else leaves it unchanged.
void find_nonfinite(const Tensor& gradients, const Tensor& found);

/// Updates the state after a step and clears `found`. If it was set, halves the scale (to 1 at least) and counts the
/// step as skipped. Otherwise doubles the scale (to 2^24 at most) after `growth_interval` good steps.
void update_loss_scale(const LossScaleState& state, int growth_interval);

}  // namespace dptrain::ops
