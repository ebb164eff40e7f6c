#pragma once

#include <cstdint>

namespace dptrain::ops {

/// Of the tree over the ranks, of which there are fewer than 2 to the power of these.
inline constexpr int kTwoBitLevels = 11;

/// 2-bit messages of several ranks; see two_bit.h.
struct TwoBitRanks {
  const int32_t* words = nullptr;     ///< the first rank's
  const float* thresholds = nullptr;  ///< the first rank's
  int64_t ranks = 1;
  int64_t stride = 0;  ///< from one rank's to the next one's, in elements of either
};

/// Kernels over `count` floats that lie one after the other. They run on the calling thread.
struct CompressionKernels {
  /// kept = kept * factor + gradient; the same on every instruction set where the product is exact, as of a power of
  /// two.
  void (*take_up_residual)(float* kept, const float* gradient, float factor, int64_t count);
  /// kept = (kept - sent) / factor; where that isn't finite kept / factor, where neither is 0.
  void (*leave_residual)(float* kept, const float* sent, float factor, int64_t count);
  /// A word of 16 values each.
  void (*two_bit_encode)(const float* values, float threshold, int32_t* words, int64_t count);
  /// sum = the values of all ranks, added in the balanced tree's order.
  void (*two_bit_decode)(const TwoBitRanks& messages, float* sum, int64_t count);
};

const CompressionKernels& compression_kernels();

}  // namespace dptrain::ops
