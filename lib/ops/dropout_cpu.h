#pragma once

#include "ops/dropout.h"

namespace dptrain::ops::cpu {

/// Writes the mask, u8 in the layout of its tensor: 1 where the element's word is at least `threshold`. Drawn in
/// logical order (channel by channel), so that every layout drops the same elements.
void draw_mask(const Tensor& mask, uint32_t threshold, const DropoutKey& key);

}  // namespace dptrain::ops::cpu
