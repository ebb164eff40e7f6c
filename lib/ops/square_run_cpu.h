#pragma once

#include <cstdint>
#include <span>

#include "ops/square_digits.h"

namespace dptrain::ops::cpu {

/// The exact sum of the squares of some values, added by one thread.
struct SquareRun {
  SquareDigits digits;
  uint32_t largest = 0;  ///< bits of the largest magnitude; if it isn't finite, the digits mean nothing

  void add(const float* x, int64_t count);
};

/// Adds the runs to a sum's numbers. Their order doesn't matter.
void add_runs(std::span<const SquareRun> runs, double* sum);

}  // namespace dptrain::ops::cpu
