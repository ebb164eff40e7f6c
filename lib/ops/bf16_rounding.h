#pragma once

#include <cstdint>

#include "tensor/bfloat16.h"

// Conversions between bf16 and f32, for *_kernels.cc only: each instruction set compiles its own copy, which no other
// file sees. They use integer arithmetic, for which every instruction set has vectors; AVX512_BF16's conversion flushes
// denormal numbers to zero.

namespace dptrain::ops::DPTRAIN_ISA_NAMESPACE {
namespace {

inline float widened(Bfloat16 x) { return __builtin_bit_cast(float, static_cast<uint32_t>(x.bits) << 16); }

/// Rounds to nearest, ties to even; NaN stays NaN.
inline Bfloat16 rounded(float x) {
  const uint32_t bits = __builtin_bit_cast(uint32_t, x);
  const uint32_t nearest = (bits + 0x7fff + (bits >> 16 & 1)) >> 16, nan = bits >> 16 | 0x40;
  return {static_cast<uint16_t>((bits & 0x7fffffff) > 0x7f800000 ? nan : nearest)};
}

}  // namespace
}  // namespace dptrain::ops::DPTRAIN_ISA_NAMESPACE
