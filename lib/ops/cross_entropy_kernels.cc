#include "ops/cross_entropy_kernels.h"

#include "ops/float_functions.h"
#include "ops/vector_lanes.h"

// Compiled once for each instruction set, see cmake/DptrainKernels.cmake.

namespace dptrain::ops::DPTRAIN_ISA_NAMESPACE {
namespace {

/// Exponentials that are computed at once and added to as many sums. The order of additions is the same on every
/// instruction set.
constexpr int64_t kSums = 16;

float largest(const float* logits, int64_t count) { return largest_of(logits, count); }

double sum_of_exponentials(const float* logits, int64_t count, float largest) {
  double sums[kSums] = {};
  float exponentials[kSums];
  int64_t i = 0;
  for (; i + kSums <= count; i += kSums) {
    for (int64_t lane = 0; lane < kSums; ++lane) exponentials[lane] = exp_of(logits[i + lane] - largest);
    for (int64_t lane = 0; lane < kSums; ++lane) sums[lane] += static_cast<double>(exponentials[lane]);
  }
  for (; i < count; ++i) sums[i % kSums] += static_cast<double>(exp_of(logits[i] - largest));
  for (int64_t step = kSums / 2; step > 0; step /= 2)
    for (int64_t lane = 0; lane < step; ++lane) sums[lane] += sums[lane + step];
  return sums[0];
}

double exact_sum_of_exponentials(const float* logits, int64_t count, float largest) {
  double sums[kSums] = {};
  const double from = largest;
  int64_t i = 0;
  for (; i + kSums <= count; i += kSums)
    for (int64_t lane = 0; lane < kSums; ++lane) sums[lane] += exact_exp_of(logits[i + lane] - from);
  for (; i < count; ++i) sums[i % kSums] += exact_exp_of(logits[i] - from);
  for (int64_t step = kSums / 2; step > 0; step /= 2)
    for (int64_t lane = 0; lane < step; ++lane) sums[lane] += sums[lane + step];
  return sums[0];
}

void spread(const float* logits, int64_t count, float largest, float share, float every, float* __restrict out) {
  for (int64_t i = 0; i < count; ++i) out[i] = share * exp_of(logits[i] - largest) - every;
}

}  // namespace

extern const CrossEntropyKernels kCrossEntropy;
const CrossEntropyKernels kCrossEntropy = {largest, sum_of_exponentials, exact_sum_of_exponentials, spread};

}  // namespace dptrain::ops::DPTRAIN_ISA_NAMESPACE
