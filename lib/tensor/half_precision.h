#pragma once

#include <cstdint>

#include "tensor/bfloat16.h"
#include "tensor/float16.h"

// Conversions between 16-bit numbers and f32, one at a time, for files that aren't compiled for each instruction set.
// Rounding is to nearest, ties to even. Values past the largest number become infinite, and a NaN stays one. There are
// no branches, and comparisons use signed integers, so that a loop over these functions is vectorized on any CPU.

namespace dptrain {

/// Selects without a branch. A compiler may make a branch of ?: if one of the two comes from a float.
inline int32_t bits_where(bool condition, int32_t bits, int32_t otherwise) {
  const int32_t mask = -static_cast<int32_t>(condition);
  return (bits & mask) | (otherwise & ~mask);
}

inline float widened(Bfloat16 x) { return __builtin_bit_cast(float, static_cast<uint32_t>(x.bits) << 16); }

inline float widened(Float16 x) {
  const int32_t magnitude = (x.bits & 0x7fff) << 13;
  const uint32_t sign = static_cast<uint32_t>(x.bits & 0x8000) << 16;
  // f32's exponent bias is 112 larger. Multiplying also converts subnormal numbers.
  const float value = __builtin_bit_cast(float, magnitude) * 0x1p112f;
  const int32_t bits = bits_where(magnitude < 0x7c00 << 13, __builtin_bit_cast(int32_t, value), magnitude | 0x7f800000);
  return __builtin_bit_cast(float, static_cast<uint32_t>(bits) | sign);
}

template <class T>
T rounded_to(float x);

template <>
inline Bfloat16 rounded_to<Bfloat16>(float x) {
  const uint32_t bits = __builtin_bit_cast(uint32_t, x);
  const uint32_t nearest = (bits + 0x7fff + (bits >> 16 & 1)) >> 16, nan = bits >> 16 | 0x40;
  return {static_cast<uint16_t>((bits & 0x7fffffff) > 0x7f800000 ? nan : nearest)};
}

template <>
inline Float16 rounded_to<Float16>(float x) {
  const int32_t bits = __builtin_bit_cast(int32_t, x), magnitude = bits & 0x7fffffff;
  // Below 2^-14 numbers are 2^-24 apart, as in f32 from 1/2 on. So the addition rounds.
  const int32_t small = __builtin_bit_cast(int32_t, __builtin_bit_cast(float, magnitude) + 0.5f) - 0x3f000000;
  const int32_t normal = (magnitude - 0x38000000 + 0xfff + (magnitude >> 13 & 1)) >> 13;
  int32_t half = bits_where(magnitude < 0x38800000, small, normal);
  half =
      bits_where(magnitude >= 0x477ff000, 0x7c00, half);    // 65520 and more, nearer to 2^16 than to the largest number
  half = bits_where(magnitude > 0x7f800000, 0x7e00, half);  // NaN
  return {static_cast<uint16_t>((bits >> 16 & 0x8000) | half)};
}

}  // namespace dptrain
