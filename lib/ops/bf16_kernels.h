#pragma once

#include <cstdint>

#include "tensor/bfloat16.h"

namespace dptrain::ops {

/// Conversions of `count` numbers that lie one after the other. They run on the calling thread.
struct Bf16Kernels {
  /// Exact.
  void (*widen)(const Bfloat16* from, float* to, int64_t count);
  /// To nearest, ties to even; what lies past the largest bf16 becomes infinite, and a NaN stays one.
  void (*round)(const float* from, Bfloat16* to, int64_t count);
};

const Bf16Kernels& bf16_kernels();

}  // namespace dptrain::ops
