#pragma once

#include <cstdint>

namespace dptrain::ops {

/// Powers of two as the exponents that f32 stores.
struct HalfRange {
  uint32_t factor;
  uint32_t inverse;
};

/// Returns the factor, and its inverse, that brings values of magnitude at most `bound` (given by its bits) into f16's
/// range. With exponent e the bound is below 2^(e - 126), and 2^(141 - e) brings it below 2^15. That is half of what
/// f16 holds, so sums of rounded values still fit. Factor and inverse are both normal numbers.
constexpr HalfRange half_range(uint32_t bound_bits) {
  constexpr uint32_t kOne = 127, kLargest = 253, kNotFinite = 255;
  const uint32_t exponent = bound_bits >> 23 & 0xff;
  uint32_t factor = 268 - exponent;
  if (factor > kLargest) factor = kLargest;
  if (exponent == kNotFinite) factor = kOne;
  return {factor << 23, (2 * kOne - factor) << 23};
}

}  // namespace dptrain::ops
