#pragma once

#include "tensor/tensor.h"

namespace dptrain::ops {

// f32 values as -t, 0 or t, in two bits each (MXNet's 2-bit gradient compression; Strom, "Scalable distributed DNN
// training using commodity GPU cloud computing", 2015). A word holds 16 values in the order of memory, the first in its
// lowest bits. Code 0 is zero, 1 is t, 2 is -t, and 3 is a value that isn't finite, which is read as NaN.

inline constexpr int64_t kTwoBitValues = 16;       ///< values in a word
inline constexpr int64_t kMostTwoBitRanks = 1024;  ///< ranks whose messages may be added up

/// Returns the number of words for a tensor's storage.
inline int64_t two_bit_words(const Tensor& values) {
  return (values.storage_elements() + kTwoBitValues - 1) / kTwoBitValues;
}

/// Computes t, f32 [1]: `share` of the root mean square of all logical elements. Not finite if one of them isn't.
void two_bit_threshold(const Tensor& values, double share, const Tensor& threshold);

/// Encodes values to words, i32 [two_bit_words(values)]: t if a value is at least t, -t if it is at most -t.
void two_bit_encode(const Tensor& values, const Tensor& threshold, const Tensor& words);

/// The same tensor as encoded by several ranks.
struct TwoBitMessages {
  Tensor words;       ///< i32, from the first rank's first word on
  Tensor thresholds;  ///< f32, from the first rank's threshold on
  int64_t ranks = 1;
  int64_t stride = 0;  ///< elements from one rank's message to the next, in both tensors
};

/// sum (f32) = the values of all messages, added in the order of a balanced tree over the ranks, of which there are at
/// most kMostTwoBitRanks.
void two_bit_decode(const TwoBitMessages& messages, const Tensor& sum);

}  // namespace dptrain::ops
