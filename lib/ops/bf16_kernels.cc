#include "ops/bf16_kernels.h"

#include "ops/bf16_rounding.h"

// Compiled once for each instruction set, see cmake/DptrainKernels.cmake.

namespace dptrain::ops::DPTRAIN_ISA_NAMESPACE {
namespace {

/// Widens bf16 to f32, exactly. Pieces are read one after the other and alternate between tensors, but the hardware
/// prefetcher looks ahead only within 4 KB and would start anew with each piece. The loop therefore prefetches the next
/// piece's lines.
void widen(const Bfloat16* __restrict from, float* __restrict to, int64_t count) {
  constexpr int64_t kLine = 32, kAhead = 4096;
  int64_t i = 0;
  for (; i + kLine <= count; i += kLine) {
    __builtin_prefetch(from + i + kAhead, 0, 2);
    for (int64_t j = i; j < i + kLine; ++j) to[j] = widened(from[j]);
  }
  for (; i < count; ++i) to[i] = widened(from[i]);
}

void round(const float* __restrict from, Bfloat16* __restrict to, int64_t count) {
  for (int64_t i = 0; i < count; ++i) to[i] = rounded(from[i]);
}

}  // namespace

extern const Bf16Kernels kBf16;
const Bf16Kernels kBf16 = {.widen = widen, .round = round};

}  // namespace dptrain::ops::DPTRAIN_ISA_NAMESPACE
