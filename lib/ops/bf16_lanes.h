#pragma once

#include "ops/vector_lanes.h"
#include "tensor/bfloat16.h"

// Vectors of numbers that are f32 or bf16 in memory, for *_kernels.cc only: each instruction set compiles its own copy,
// which no other file sees.

namespace dptrain::ops::DPTRAIN_ISA_NAMESPACE {
namespace {

template <int L>
inline Row<L> read_lanes(const float* from) {
  return load<L>(from);
}

/// Exact.
template <int L>
inline Row<L> read_lanes(const Bfloat16* from) {
  using Bits = typename Lanes<L>::Bits;
  typename Lanes<L>::Halves halves;
  __builtin_memcpy(&halves, from, sizeof halves);
  return reinterpret_cast<Row<L>>(__builtin_convertvector(halves, Bits) << 16);
}

template <int L>
inline void write_lanes(float* to, Row<L> row) {
  store<L>(to, row);
}

/// Rounds as `rounded` in bf16_rounding.h does.
template <int L>
inline void write_lanes(Bfloat16* to, Row<L> row) {
  using Halves = typename Lanes<L>::Halves;
  using Bits = typename Lanes<L>::Bits;
  const Bits bits = reinterpret_cast<Bits>(row);
  const Bits nearest = (bits + 0x7fff + (bits >> 16 & 1)) >> 16, nan = bits >> 16 | 0x40;
  const Bits chosen = (bits & 0x7fffffff) > 0x7f800000 ? nan : nearest;
  const Halves halves = __builtin_convertvector(chosen, Halves);
  __builtin_memcpy(to, &halves, sizeof halves);
}

}  // namespace
}  // namespace dptrain::ops::DPTRAIN_ISA_NAMESPACE
