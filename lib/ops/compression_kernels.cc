#include "ops/compression_kernels.h"

#include "ops/vector_lanes.h"

// Compiled once for each instruction set, see cmake/DptrainKernels.cmake.

namespace dptrain::ops::DPTRAIN_ISA_NAMESPACE {
namespace {

/// Values of a word; they are computed register by register.
constexpr int kValues = 16, kParts = kValues / kRegisterLanes;
/// Bits of a word that belong to one part.
constexpr int kPartBits = 2 * kRegisterLanes;
constexpr int32_t kExponentBits = 0x7f800000;

using Codes = Lanes<kRegisterLanes>::Places;

/// The codes of t and -t, with each lane's code at its value's bits in a word's lowest part. Both codes together mean a
/// value that isn't finite.
inline Codes plus_codes() {
  Codes codes;
  for (int lane = 0; lane < kRegisterLanes; ++lane) codes[lane] = static_cast<int32_t>(1u << 2 * lane);
  return codes;
}
inline Codes minus_codes() { return plus_codes() << 1; }

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
  int32_t word = 0;
  for (int lane = 0; lane < kRegisterLanes; ++lane) word |= codes[lane];
  return word;
}

/// Returns the codes of a part's values, at the bits of the lowest part.
Codes codes_of(Register x, float threshold) {
  const Codes is_infinite = (__builtin_bit_cast(Codes, x) & kExponentBits) == kExponentBits;
  const Codes is_plus = x >= threshold, is_minus = (x <= -threshold) & ~is_plus;
  return ((is_plus | is_infinite) & plus_codes()) | ((is_minus | is_infinite) & minus_codes());
}

int32_t encoded(const float* values, float threshold) {
  Codes codes{};
  for (int part = 0; part < kParts; ++part)
    codes |= codes_of(load<kRegisterLanes>(values + part * kRegisterLanes), threshold) << part * kPartBits;
  return word_of(codes);
}

void two_bit_encode(const float* values, float threshold, int32_t* words, int64_t count) {
  const int64_t whole = count / kValues;
  for (int64_t word = 0; word < whole; ++word) words[word] = encoded(values + word * kValues, threshold);
  const int64_t rest = count % kValues;
  if (rest == 0) return;
  float last[kValues] = {};
  for (int64_t k = 0; k < rest; ++k) last[k] = values[whole * kValues + k];
  // Missing values get code 0, whatever 0 is encoded as.
  words[whole] = encoded(last, threshold) & ((1 << 2 * rest) - 1);
}

/// Returns the values of a word's lowest part.
Register decoded(int32_t word, float threshold) {
  const Codes bits = Codes{} + word;
  const Codes is_plus = (bits & plus_codes()) != 0, is_minus = (bits & minus_codes()) != 0;
  const Register plus = Register{} + threshold, none = {}, not_a_number = Register{} + __builtin_nanf("");
  return is_plus ? (is_minus ? not_a_number : plus) : (is_minus ? -plus : none);
}

/// Returns the sum of all ranks' values for one part of a word. It works like a binary counter: after rank r, the
/// levels of the set bits of r + 1 hold the sums of whole subtrees. At the end these are added from the smallest up.
Register sum_of(const TwoBitRanks& messages, int64_t word, int part) {
  Register level[kTwoBitLevels], sum = {};
  for (int64_t r = 0; r < messages.ranks; ++r) {
    const int32_t codes = messages.words[r * messages.stride + word] >> part * kPartBits;
    sum = decoded(codes, messages.thresholds[r * messages.stride]);
    int height = 0;
    for (; (r >> height & 1) != 0; ++height) sum = level[height] + sum;
    level[height] = sum;
  }
  // `sum` holds the subtree of the last rank, which belongs to the lowest set bit.
  for (int height = __builtin_ctzll(static_cast<uint64_t>(messages.ranks)) + 1; height < kTwoBitLevels; ++height)
    if ((messages.ranks >> height & 1) != 0) sum = level[height] + sum;
  return sum;
}

void decode_word(const TwoBitRanks& messages, int64_t word, float* sum) {
  for (int part = 0; part < kParts; ++part)
    store<kRegisterLanes>(sum + part * kRegisterLanes, sum_of(messages, word, part));
}

void two_bit_decode(const TwoBitRanks& messages, float* sum, int64_t count) {
  const int64_t whole = count / kValues;
  for (int64_t word = 0; word < whole; ++word) decode_word(messages, word, sum + word * kValues);
  const int64_t rest = count % kValues;
  if (rest == 0) return;
  float last[kValues];
  decode_word(messages, whole, last);
  for (int64_t k = 0; k < rest; ++k) sum[whole * kValues + k] = last[k];
}

}  // namespace

extern const CompressionKernels kCompression;
const CompressionKernels kCompression = {.take_up_residual = take_up_residual,
                                         .leave_residual = leave_residual,
                                         .two_bit_encode = two_bit_encode,
                                         .two_bit_decode = two_bit_decode};

}  // namespace dptrain::ops::DPTRAIN_ISA_NAMESPACE
