#pragma once

#include <cstdint>

namespace dptrain::ops {

/// Elements whose squares are added in double at once.
inline constexpr int64_t kSquareBlock = 1024;
inline constexpr int kMostSquarePieces = 12;

/// The exact sum of a block's squares: of sums[i] * 2^places[i], where places count as those of SquareDigits.
struct SquarePieces {
  int count = 0;
  int64_t sums[kMostSquarePieces] = {};  ///< under 2^58 in magnitude
  int places[kMostSquarePieces] = {};
  uint32_t largest = 0;  ///< the bits of the largest magnitude; there are no pieces where it isn't finite
};

/// Kernels of exact sums of squares. They run on the calling thread.
struct SquareSumKernels {
  /// Of at most kSquareBlock floats.
  void (*square_block)(const float* x, int64_t count, SquarePieces& pieces);
};

const SquareSumKernels& square_sum_kernels();

}  // namespace dptrain::ops
