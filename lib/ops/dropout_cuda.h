#pragma once

#include "ops/dropout.h"

namespace dptrain::ops::cuda {

/// Writes the mask, u8 in its own layout: 1 if the element's word is at least `threshold`. Words are drawn in logical
/// order (channel by channel), so that every layout drops the same elements.
void draw_mask(const Tensor& mask, uint32_t threshold, const DropoutKey& key);

}  // namespace dptrain::ops::cuda
