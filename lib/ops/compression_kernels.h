#pragma once

#include <cstdint>

namespace dptrain::ops {

/// Levels of the tree over the ranks; the number of ranks is below 2^kTwoBitLevels.
inline constexpr int kTwoBitLevels = 11;

/// 2-bit messages of several ranks; see two_bit.h.
struct TwoBitRanks {
  const int32_t* words = nullptr;     ///< the first rank's words
  const float* thresholds = nullptr;  ///< the first rank's threshold
  int64_t ranks = 1;
  int64_t stride = 0;  ///< elements from one rank's message to the next, in both arrays
};

/// Kernels over `count` contiguous floats. They run on the calling thread.
struct CompressionKernels {
  /// kept = kept * factor + gradient. All instruction sets give the same bits if the product is exact, for example with
  /// a power of two.
  void (*take_up_residual)(float* kept, const float* gradient, float factor, int64_t count);
  /// kept = (kept - sent) / factor; if that isn't finite, kept / factor; if neither is finite, 0.
  void (*leave_residual)(float* kept, const float* sent, float factor, int64_t count);
  /// Encodes 16 values into each word.
  void (*two_bit_encode)(const float* values, float threshold, int32_t* words, int64_t count);
  /// sum = the values of all ranks, added in the balanced tree's order.
  void (*two_bit_decode)(const TwoBitRanks& messages, float* sum, int64_t count);
};

const CompressionKernels& compression_kernels();

}  // namespace dptrain::ops
