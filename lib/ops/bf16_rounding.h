#pragma once

#include <cstdint>

#include "tensor/bfloat16.h"

// Between bf16 and f32, for *_kernels.cc only: each instruction set gets its own, which no other file can see. In
// integer arithmetic, which every instruction set has by vectors; AVX512_BF16's conversion makes small numbers zero.

namespace dptrain::ops::DPTRAIN_ISA_NAMESPACE {
namespace {

inline float widened(Bfloat16 x) { return __builtin_bit_cast(float, static_cast<uint32_t>(x.bits) << 16); }

/// To nearest, ties to even; a NaN stays one.
inline Bfloat16 rounded(float x) {
  const uint32_t bits = __builtin_bit_cast(uint32_t, x);
  const uint32_t nearest = (bits + 0x7fff + (bits >> 16 & 1)) >> 16, nan = bits >> 16 | 0x40;
  return {static_cast<uint16_t>((bits & 0x7fffffff) > 0x7f800000 ? nan : nearest)};
}

}  // namespace
}  // namespace dptrain::ops::DPTRAIN_ISA_NAMESPACE
