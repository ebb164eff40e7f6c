#pragma once

#include "ops/dropout.h"
#include "ops/random_counter.h"

namespace dptrain::ops::cpu {

/// What the numbers of a sample are drawn with.
RandomCounter dropout_counter(const DropoutKey& key, int64_t sample);

/// Writes the mask, u8 in the layout of its tensor: 1 where the element's word is at least `threshold`. Drawn in
/// logical order (channel by channel), so that every layout drops the same elements.
void draw_mask(const Tensor& mask, uint32_t threshold, const DropoutKey& key);

/// The same for rows [begin, end) of a plain mask, [..., E], on the calling thread.
void draw_mask_rows(const Tensor& mask, int64_t begin, int64_t end, uint32_t threshold, const DropoutKey& key);

}  // namespace dptrain::ops::cpu
