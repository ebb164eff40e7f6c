#pragma once

#include <cstdint>

namespace dptrain {

/// A bf16 number as stored in host memory: the upper half of an f32.
struct Bfloat16 {
  uint16_t bits;
};

}  // namespace dptrain
