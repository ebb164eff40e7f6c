#pragma once

#include <cstdint>

namespace dptrain::ops {

// The digits of an exact sum of squares, a superaccumulator (Collange et al., "Numerical reproducibility for the
// parallel reduction on multi- and many-core architectures", 2015). Digits have 40 bits, and the first digit counts
// 2^-300. The square of an f32 is a multiple of 2^-298 below 2^256, so fifteen digits hold any 2^44 squares. A digit
// stored as f64 is a whole number below 2^40, so the digits of 4096 ranks add up exactly in any order.

inline constexpr int kSquareDigits = 15;
inline constexpr int kDigitBits = 40;
inline constexpr int64_t kDigitMask = (int64_t{1} << kDigitBits) - 1;
/// Index of a sum's last number: 0, or infinity or NaN if one of the values is. Then the digits mean nothing.
inline constexpr int kNotFinite = kSquareDigits;
inline constexpr int kSquareSumNumbers = kSquareDigits + 1;

struct SquareDigits {
  int64_t at[kSquareDigits] = {};

  /// Adds value * 2^place. The place counts from the first digit's lowest bit and is below 520; the value's magnitude
  /// is below 2^63. Until carry(), digits may be of any size and negative.
  constexpr void add(int64_t value, int place) {
    const int digit = place / kDigitBits, shift = place % kDigitBits;
    at[digit] += (value & (kDigitMask >> shift)) << shift;
    value >>= kDigitBits - shift;
    at[digit + 1] += value & kDigitMask;
    at[digit + 2] += value >> kDigitBits;
  }
  constexpr void add(const SquareDigits& other) {
    for (int digit = 0; digit < kSquareDigits; ++digit) at[digit] += other.at[digit];
  }
  /// Brings all digits to 40 bits. The sum must not be negative.
  constexpr void carry() {
    for (int digit = 0; digit + 1 < kSquareDigits; ++digit) {
      at[digit + 1] += at[digit] >> kDigitBits;
      at[digit] &= kDigitMask;
    }
  }
  /// Returns the sum of carried digits, rounded once.
  constexpr double rounded() const {
    constexpr double kBase = static_cast<double>(kDigitMask + 1);
    int top = kSquareDigits - 1;
    while (top > 2 && at[top] == 0) --top;
    bool rest = false;
    for (int digit = 0; digit < top - 2; ++digit) rest = rest || at[digit] != 0;
    double unit = 0x1p-300;  // weight of the second of the three highest digits
    for (int digit = 1; digit < top; ++digit) unit *= kBase;
    const auto first = static_cast<double>(at[top]), second = static_cast<double>(at[top - 1]),
               third = static_cast<double>(at[top - 2]);
    // The sum of two exact terms is rounded once. A half stands for all lower bits: it suffices, because it is below
    // the bit that decides the rounding.
    if (at[top] < 1 << 13) return ((first * kBase + second) + (third + (rest ? 0.5 : 0)) / kBase) * unit;
    return (first * kBase + (second + (third != 0 || rest ? 0.5 : 0))) * unit;
  }

  /// Reads the digits of a sum, which communicators may have added.
  static constexpr SquareDigits of(const double* sum) {
    SquareDigits digits;
    for (int digit = 0; digit < kSquareDigits; ++digit) digits.at[digit] = static_cast<int64_t>(sum[digit]);
    return digits;
  }
  constexpr void write(double* sum) const {
    for (int digit = 0; digit < kSquareDigits; ++digit) sum[digit] = static_cast<double>(at[digit]);
  }
};

/// Returns the value of a sum, rounded once: 0 or more, infinity or NaN.
constexpr double rounded_square_sum(const double* sum) {
  if (sum[kNotFinite] != 0) return sum[kNotFinite];
  SquareDigits digits = SquareDigits::of(sum);
  digits.carry();
  return digits.rounded();
}

}  // namespace dptrain::ops
