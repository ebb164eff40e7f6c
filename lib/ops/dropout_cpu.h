#pragma once

#include "ops/dropout.h"
#include "ops/random_counter.h"

namespace dptrain::ops::cpu {

/// The random counter from which a sample's numbers are drawn.
RandomCounter dropout_counter(const DropoutKey& key, int64_t sample);

/// Writes the mask, u8 in its tensor's layout: 1 if the element's word is at least `threshold`. Words are drawn in
/// logical order (channel by channel), so that every layout drops the same elements.
void draw_mask(const Tensor& mask, uint32_t threshold, const DropoutKey& key);

/// Like draw_mask, for rows [begin, end) of a plain mask, [..., E], on the calling thread.
void draw_mask_rows(const Tensor& mask, int64_t begin, int64_t end, uint32_t threshold, const DropoutKey& key);

}  // namespace dptrain::ops::cpu
