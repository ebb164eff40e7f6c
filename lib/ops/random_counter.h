#pragma once

#include <cstdint>

namespace dptrain::ops {

/// What base/random.h's KeyedRandom is made from, and the upper half of its blocks' numbers.
struct RandomCounter {
  uint32_t key[2];
  uint32_t upper;
  uint32_t subject;
  uint32_t epoch;
};

}  // namespace dptrain::ops
