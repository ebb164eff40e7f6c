#pragma once

#include <cstdint>

#include "tensor/bfloat16.h"

namespace dptrain::ops {

/// Conversions of `count` contiguous numbers. They run on the calling thread.
struct Bf16Kernels {
  /// Exact.
  void (*widen)(const Bfloat16* from, float* to, int64_t count);
  /// Rounds to nearest, ties to even. Values beyond the largest bf16 become infinite; NaN stays NaN.
  void (*round)(const float* from, Bfloat16* to, int64_t count);
};

const Bf16Kernels& bf16_kernels();

}  // namespace dptrain::ops
