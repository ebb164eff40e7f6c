#include "ops/dropout_kernels.h"

#include "ops/random_words.h"

// Compiled once for each instruction set, see cmake/DptrainKernels.cmake.

namespace dptrain::ops::DPTRAIN_ISA_NAMESPACE {
namespace {

static_assert(kDropoutGrain == 4 * kRandomBlocks);

void draw(const RandomCounter& counter, int64_t first, int64_t count, uint32_t threshold, uint8_t* __restrict mask) {
  uint32_t words[kDropoutGrain];
  for (int64_t begin = 0; begin < count; begin += kDropoutGrain) {
    random_words(counter, static_cast<uint64_t>((first + begin) / 4), kRandomBlocks, words);
    uint8_t* out = mask + begin;
    if (count - begin >= kDropoutGrain) {
      for (int64_t i = 0; i < kDropoutGrain; ++i) out[i] = words[i] >= threshold;
    } else {
      for (int64_t i = 0; i < count - begin; ++i) out[i] = words[i] >= threshold;
    }
  }
}

}  // namespace

extern const DropoutKernels kDropout;
const DropoutKernels kDropout = {draw};

}  // namespace dptrain::ops::DPTRAIN_ISA_NAMESPACE
