#pragma once

#include <cstdint>

namespace dptrain::ops {

/// Of a row of logits, on the calling thread. Exponents are at most zero, so that nothing overflows.
struct CrossEntropyKernels {
  float (*largest)(const float* logits, int64_t count);
  /// The sum of exp(logit - largest), of exponentials in float, added in double.
  double (*sum_of_exponentials)(const float* logits, int64_t count, float largest);
  /// The same of exponentials in double, to 1e-15 of itself: for losses.
  double (*exact_sum_of_exponentials)(const float* logits, int64_t count, float largest);
  /// out = share * exp(logit - largest) - every
  void (*spread)(const float* logits, int64_t count, float largest, float share, float every, float* out);
};

const CrossEntropyKernels& cross_entropy_kernels();

}  // namespace dptrain::ops
