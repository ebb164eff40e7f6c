#pragma once

#include <cstdint>

#include "tensor/bfloat16.h"
#include "tensor/float16.h"

// Between numbers of 16 bits and f32, one at a time, where neither vectors nor a GPU are at hand. Rounded to nearest,
// ties to even; what lies past the largest number becomes infinite, and a NaN stays one.

namespace dptrain {

inline float widened(Bfloat16 x) { return __builtin_bit_cast(float, static_cast<uint32_t>(x.bits) << 16); }

inline float widened(Float16 x) {
  const uint32_t sign = (x.bits & 0x8000u) << 16, magnitude = (x.bits & 0x7fffu) << 13;
  // f32's exponent counts from 112 more. Multiplying brings subnormal numbers along, too.
  const float value = __builtin_bit_cast(float, magnitude) * 0x1p112f;
  const bool is_finite = magnitude < 0x7c00u << 13;
  const uint32_t bits = is_finite ? __builtin_bit_cast(uint32_t, value) : magnitude | 0x7f800000u;
  return __builtin_bit_cast(float, bits | sign);
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
  const uint32_t bits = __builtin_bit_cast(uint32_t, x), magnitude = bits & 0x7fffffffu;
  uint32_t half = 0;
  if (magnitude > 0x7f800000u) {
    half = 0x7e00;  // NaN
  } else if (magnitude >= 0x477ff000u) {
    half = 0x7c00;  // 65520 and more, which is nearer to 2^16 than to the largest number
  } else if (magnitude < 0x38800000u) {
    // Under 2^-14 numbers are 2^-24 apart, as they are from 1/2 on in f32: its addition rounds.
    half = __builtin_bit_cast(uint32_t, __builtin_bit_cast(float, magnitude) + 0.5f) - 0x3f000000u;
  } else {
    half = (magnitude - 0x38000000u + 0xfff + (magnitude >> 13 & 1)) >> 13;
  }
  return {static_cast<uint16_t>((bits >> 16 & 0x8000u) | half)};
}

}  // namespace dptrain
