#include "ops/bf16_kernels.h"

#include "ops/bf16_rounding.h"

// Compiled once for each instruction set, see cmake/DptrainKernels.cmake.

namespace dptrain::ops::DPTRAIN_ISA_NAMESPACE {
namespace {

void widen(const Bfloat16* __restrict from, float* __restrict to, int64_t count) {
  for (int64_t i = 0; i < count; ++i) to[i] = widened(from[i]);
}

void round(const float* __restrict from, Bfloat16* __restrict to, int64_t count) {
  for (int64_t i = 0; i < count; ++i) to[i] = rounded(from[i]);
}

}  // namespace

extern const Bf16Kernels kBf16;
const Bf16Kernels kBf16 = {.widen = widen, .round = round};

}  // namespace dptrain::ops::DPTRAIN_ISA_NAMESPACE
