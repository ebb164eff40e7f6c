#pragma once

#include <cstdint>

#include "ops/random_counter.h"

namespace dptrain::ops {

struct DropoutKernels {
  /// Draws the mask of `count` elements of a sample from number `first` on, a multiple of kDropoutGrain: 1 if the
  /// element's word is at least `threshold`, else 0.
  void (*draw)(const RandomCounter& counter, int64_t first, int64_t count, uint32_t threshold, uint8_t* mask);
};

/// Elements whose words are drawn at once.
inline constexpr int64_t kDropoutGrain = 64;

const DropoutKernels& dropout_kernels();

}  // namespace dptrain::ops
