#pragma once

#include "ops/loss_scale.h"

namespace dptrain::ops::cuda {

void find_nonfinite(const Tensor& gradients, const Tensor& found);
void update_loss_scale(const LossScaleState& state, int growth_interval);

}  // namespace dptrain::ops::cuda
