#pragma once

#include <cstdint>

#include "tensor/dtype.h"

namespace dptrain {

/// An IEEE half-precision number as stored in host memory: 5 bits of exponent, 10 of mantissa.
struct Float16 {
  uint16_t bits;
};

template <>
constexpr DType dtype_of<Float16>() {
  return DType::f16;
}

}  // namespace dptrain
