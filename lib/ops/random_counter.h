#pragma once

#include <cstdint>

namespace dptrain::ops {

/// The numbers from which base/random.h's KeyedRandom is made, and the upper half of its blocks' numbers.
struct RandomCounter {
  uint32_t key[2];
  uint32_t upper;
  uint32_t subject;
  uint32_t epoch;
};

}  // namespace dptrain::ops
