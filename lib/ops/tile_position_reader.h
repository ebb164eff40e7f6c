#pragma once

#include "ops/bf16_tiles.h"
#include "ops/tile_positions.h"

// How *_bf16.cc read the long rows of a convolution's images.

namespace dptrain::ops::DPTRAIN_ISA_NAMESPACE {
namespace {

/// Calls take(channels) with the 32 channels of each position from `begin` to `end`, in order. Channels and pixels that
/// don't exist are zero.
template <class Take>
[[gnu::always_inline]] inline void read_positions(const TilePositions& p, int64_t begin, int64_t end,
                                                  const Take& take) {
  const __mmask16 low = first_lanes(p.channels), high = first_lanes(p.channels - 16);
  for (int64_t position = begin; position < end;) {
    const int64_t behind = position - p.lead, line = behind / p.columns, column = behind % p.columns;
    const int64_t image = line / p.rows, row = line % p.rows;
    const bool before = behind < 0, after = !before && image >= p.images;
    const int64_t pixels = before || after || row >= p.height ? 0 : p.width - column;
    // Length of the current run of pixels or of zeros.
    const int64_t run = pixels > 0 ? pixels : before ? -behind : after ? end - position : p.columns - column;
    const int64_t until = smaller(end, position + run);
    if (pixels > 0) {
      const Bfloat16* from = p.pixels + image * p.image + row * p.down + column * p.along;
      for (; position < until; ++position, from += p.along) {
        const __m256i lower = _mm256_maskz_loadu_epi16(low, from);
        const __m256i upper = _mm256_maskz_loadu_epi16(high, from + p.block);
        take(_mm512_inserti64x4(_mm512_castsi256_si512(lower), upper, 1));
      }
    } else {
      for (; position < until; ++position) take(_mm512_setzero_si512());
    }
  }
}

}  // namespace
}  // namespace dptrain::ops::DPTRAIN_ISA_NAMESPACE
