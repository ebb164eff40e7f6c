#pragma once

#include <cstdint>

namespace dptrain::ops {

/// Elements whose squares are added in double at once.
inline constexpr int64_t kSquareBlock = 1024;
inline constexpr int kMostSquarePieces = 12;

/// The exact sum of a block's squares, as the sum of sums[i] * 2^places[i]. Places count as in SquareDigits.
struct SquarePieces {
  int count = 0;
  int64_t sums[kMostSquarePieces] = {};  ///< below 2^58 in magnitude
  int places[kMostSquarePieces] = {};
  uint32_t largest = 0;  ///< bits of the largest magnitude; if it isn't finite, there are no pieces
};

/// Kernels of exact sums of squares. They run on the calling thread.
struct SquareSumKernels {
  /// Sums at most kSquareBlock floats.
  void (*square_block)(const float* x, int64_t count, SquarePieces& pieces);
};

const SquareSumKernels& square_sum_kernels();

}  // namespace dptrain::ops
