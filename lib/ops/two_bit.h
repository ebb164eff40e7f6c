#pragma once

#include "tensor/tensor.h"

namespace dptrain::ops {

// f32 values as -t, 0 or t, in two bits each (MXNet's 2-bit gradient compression; Strom, "Scalable distributed DNN
// training using commodity GPU cloud computing", 2015). A word holds 16 values in the order of memory, the first in its
// lowest bits: 0 is zero, 1 is t, 2 is -t, 3 stands for what isn't finite and is read as NaN.

inline constexpr int64_t kTwoBitValues = 16;       ///< of a word
inline constexpr int64_t kMostTwoBitRanks = 1024;  ///< whose messages are added up

/// Words for a tensor's storage.
inline int64_t two_bit_words(const Tensor& values) {
  return (values.storage_elements() + kTwoBitValues - 1) / kTwoBitValues;
}

/// t, f32 [1]: `share` of the root mean square of all logical elements. Not finite where one of them isn't.
void two_bit_threshold(const Tensor& values, double share, const Tensor& threshold);

/// words, i32 [two_bit_words(values)]: t where a value is at least that, -t where it is at most that.
void two_bit_encode(const Tensor& values, const Tensor& threshold, const Tensor& words);

/// The same tensor as several ranks have encoded it.
struct TwoBitMessages {
  Tensor words;       ///< i32, from the first rank's first word on
  Tensor thresholds;  ///< f32, from the first rank's on
  int64_t ranks = 1;
  int64_t stride = 0;  ///< from one rank's to the next one's, in elements of either
};

/// sum (f32) = the values of all messages, added in the balanced tree's order over the ranks; at most
/// kMostTwoBitRanks of them.
void two_bit_decode(const TwoBitMessages& messages, const Tensor& sum);

}  // namespace dptrain::ops
