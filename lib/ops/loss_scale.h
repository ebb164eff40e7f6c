#pragma once

#include "tensor/tensor.h"

namespace dptrain::ops {

/// A dynamic loss scale (Micikevicius et al., "Mixed precision training", 2018) as it lies on the device, so that no
/// step waits for the host. Of GPUs.
struct LossScaleState {
  Tensor scale;    ///< f32 [1]: what losses are multiplied by
  Tensor inverse;  ///< f32 [1]: 1 / scale
  Tensor found;    ///< i32 [1]: 1 where this step's gradients hold an infinity or a NaN
  Tensor good;     ///< i32 [1]: steps without one since the scale last changed
  Tensor skipped;  ///< i64 [1]: steps with one, since the beginning
};

/// Sets `found` to 1 where a gradient (flat f32) isn't finite; else leaves it.
void find_nonfinite(const Tensor& gradients, const Tensor& found);

/// After a step: halves the scale (to 1 at least) and counts the step where `found`, else doubles it (to 2^24 at most)
/// after `growth_interval` good steps. Clears `found`.
void update_loss_scale(const LossScaleState& state, int growth_interval);

}  // namespace dptrain::ops
