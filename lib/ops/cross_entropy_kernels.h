#pragma once

#include <cstdint>

namespace dptrain::ops {

/// Kernels on one row of logits, on the calling thread. Exponents are at most zero, so nothing overflows.
struct CrossEntropyKernels {
  float (*largest)(const float* logits, int64_t count);
  /// The sum of exp(logit - largest): float exponentials, added in double.
  double (*sum_of_exponentials)(const float* logits, int64_t count, float largest);
  /// The sum of exp(logit - largest) with double exponentials, to a relative error of 1e-15; used for losses.
  double (*exact_sum_of_exponentials)(const float* logits, int64_t count, float largest);
  /// out = share * exp(logit - largest) - every
  void (*spread)(const float* logits, int64_t count, float largest, float share, float every, float* out);
};

const CrossEntropyKernels& cross_entropy_kernels();

}  // namespace dptrain::ops
