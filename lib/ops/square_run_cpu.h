#pragma once

#include <cstdint>
#include <span>

#include "ops/square_digits.h"

namespace dptrain::ops::cpu {

/// The exact sum of the squares of some values, by one thread.
struct SquareRun {
  SquareDigits digits;
  uint32_t largest = 0;  ///< the bits of the largest magnitude; the digits mean nothing where it isn't finite

  void add(const float* x, int64_t count);
};

/// Adds them to a sum's numbers, in any order.
void add_runs(std::span<const SquareRun> runs, double* sum);

}  // namespace dptrain::ops::cpu
