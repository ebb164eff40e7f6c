#include "ops/compression_kernels.h"

#include "ops/vector_lanes.h"

// Compiled once for each instruction set, see cmake/DptrainKernels.cmake.

namespace dptrain::ops::DPTRAIN_ISA_NAMESPACE {
namespace {

/// Values of a word.
constexpr int kValues = 16;
constexpr int32_t kExponentBits = 0x7f800000;

using Numbers = Row<kValues>;
using Codes = Lanes<kValues>::Places;

/// The codes of t and -t, each where its value's bits are in a word. Both together stand for what isn't finite.
constexpr Codes kPlus = {1 << 0,  1 << 2,  1 << 4,  1 << 6,  1 << 8,  1 << 10, 1 << 12, 1 << 14,
                         1 << 16, 1 << 18, 1 << 20, 1 << 22, 1 << 24, 1 << 26, 1 << 28, 1 << 30};
constexpr Codes kMinus = {1 << 1,  1 << 3,  1 << 5,  1 << 7,  1 << 9,  1 << 11, 1 << 13, 1 << 15,
                          1 << 17, 1 << 19, 1 << 21, 1 << 23, 1 << 25, 1 << 27, 1 << 29, INT32_MIN};

void take_up_residual(float* __restrict kept, const float* __restrict gradient, float factor, int64_t count) {
  for (int64_t i = 0; i < count; ++i) kept[i] = kept[i] * factor + gradient[i];
}

void leave_residual(float* __restrict kept, const float* __restrict sent, float factor, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    const float left = kept[i] - sent[i], rest = __builtin_isfinite(left) ? left : kept[i];
    kept[i] = __builtin_isfinite(rest) ? rest / factor : 0.f;
  }
}

int32_t word_of(Codes codes) {
  const auto eight = __builtin_shufflevector(codes, codes, 0, 1, 2, 3, 4, 5, 6, 7) |
                     __builtin_shufflevector(codes, codes, 8, 9, 10, 11, 12, 13, 14, 15);
  const auto four =
      __builtin_shufflevector(eight, eight, 0, 1, 2, 3) | __builtin_shufflevector(eight, eight, 4, 5, 6, 7);
  return four[0] | four[1] | four[2] | four[3];
}

int32_t encoded(const float* values, float threshold) {
  const Numbers x = load<kValues>(values);
  const Codes is_infinite = (__builtin_bit_cast(Codes, x) & kExponentBits) == kExponentBits;
  const Codes is_plus = x >= threshold, is_minus = (x <= -threshold) & ~is_plus;
  return word_of(((is_plus | is_infinite) & kPlus) | ((is_minus | is_infinite) & kMinus));
}

void two_bit_encode(const float* values, float threshold, int32_t* words, int64_t count) {
  const int64_t whole = count / kValues;
  for (int64_t word = 0; word < whole; ++word) words[word] = encoded(values + word * kValues, threshold);
  const int64_t rest = count % kValues;
  if (rest == 0) return;
  float last[kValues] = {};
  for (int64_t k = 0; k < rest; ++k) last[k] = values[whole * kValues + k];
  // What isn't there is 0, whatever 0 is encoded as.
  words[whole] = encoded(last, threshold) & ((1 << 2 * rest) - 1);
}

Numbers decoded(int32_t word, float threshold) {
  const Codes bits = Codes{} + word;
  const Codes is_plus = (bits & kPlus) != 0, is_minus = (bits & kMinus) != 0;
  const Numbers plus = Numbers{} + threshold, none = {}, not_a_number = Numbers{} + __builtin_nanf("");
  return is_plus ? (is_minus ? not_a_number : plus) : (is_minus ? -plus : none);
}

/// As a binary counter: after rank r the levels of the set bits of r + 1 hold the sums of whole subtrees, which are
/// added from the smallest up at the end.
Numbers sum_of(const TwoBitRanks& messages, int64_t word) {
  Numbers level[kTwoBitLevels], sum = {};
  for (int64_t r = 0; r < messages.ranks; ++r) {
    sum = decoded(messages.words[r * messages.stride + word], messages.thresholds[r * messages.stride]);
    int height = 0;
    for (; (r >> height & 1) != 0; ++height) sum = level[height] + sum;
    level[height] = sum;
  }
  // `sum` holds the last rank's subtree, that of the lowest set bit.
  for (int height = __builtin_ctzll(static_cast<uint64_t>(messages.ranks)) + 1; height < kTwoBitLevels; ++height)
    if ((messages.ranks >> height & 1) != 0) sum = level[height] + sum;
  return sum;
}

void two_bit_decode(const TwoBitRanks& messages, float* sum, int64_t count) {
  const int64_t whole = count / kValues;
  for (int64_t word = 0; word < whole; ++word) store<kValues>(sum + word * kValues, sum_of(messages, word));
  const int64_t rest = count % kValues;
  if (rest == 0) return;
  const Numbers last = sum_of(messages, whole);
  for (int64_t k = 0; k < rest; ++k) sum[whole * kValues + k] = last[k];
}

}  // namespace

extern const CompressionKernels kCompression;
const CompressionKernels kCompression = {.take_up_residual = take_up_residual,
                                         .leave_residual = leave_residual,
                                         .two_bit_encode = two_bit_encode,
                                         .two_bit_decode = two_bit_decode};

}  // namespace dptrain::ops::DPTRAIN_ISA_NAMESPACE
