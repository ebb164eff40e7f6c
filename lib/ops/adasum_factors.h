#pragma once

#include <bit>
#include <cstdint>
#include <limits>

#include "ops/trust_ratio.h"

namespace dptrain::ops {

// How Adasum adds two vectors (adasum.h). CPU workers and GPUs compute it in the same double arithmetic: no product is
// added to anything, since compilers could round that differently, except for products with powers of two.

/// Returns the square root, rounded down to a power of two, of a finite positive number that isn't subnormal.
constexpr double root_power_of_two(double number) {
  constexpr int kFractionBits = 52, kBias = 1023;
  const int exponent = static_cast<int>(std::bit_cast<uint64_t>(number) >> kFractionBits) - kBias;
  // A right shift rounds down, below zero too.
  return std::bit_cast<double>(static_cast<uint64_t>((exponent >> 1) + kBias) << kFractionBits);
}

/// Powers of two by which vectors are multiplied to become about equally long. Sums and differences of such vectors
/// show their angle best. Only the shorter one is multiplied, which is exact.
struct AdasumScales {
  double first = 1, second = 1;
};

/// Two vectors' squared norms.
struct SquaredNorms {
  double first = 0, second = 0;

  /// Reads a tensor's two sums of squares.
  static constexpr SquaredNorms of(const double* squares, int64_t tensor) {
    return {rounded_square_sum(weights_squares(squares, tensor)), rounded_square_sum(updates_squares(squares, tensor))};
  }
  constexpr bool are_finite() const {
    constexpr double kMost = std::numeric_limits<double>::max();
    return first <= kMost && second <= kMost;
  }
  /// Whether the vectors are long enough, compared with each other, for an angle between them. Next to a vector 2^100
  /// times as long, nothing that a vector does is seen.
  constexpr bool have_angle() const {
    constexpr double kLeast = 0x1p-200;
    return are_finite() && first > kLeast * second && second > kLeast * first;
  }
  constexpr AdasumScales scales() const {
    if (!have_angle()) return {};
    const double scale = root_power_of_two(second) / root_power_of_two(first);
    return scale > 1 ? AdasumScales{.first = scale} : AdasumScales{.second = 1 / scale};
  }
};

struct AdasumFactors {
  float first = 1, second = 1;
};

/// What the vectors are multiplied by before they are added: 1 - ab / (2 aa) and 1 - ab / (2 bb).
/// sums: the squared norms of the sum and the difference of both vectors, each times its scale. All factors are NaN if
/// a norm isn't finite.
constexpr AdasumFactors adasum_factors(const SquaredNorms& norms, const SquaredNorms& sums) {
  if (!norms.are_finite() || !sums.are_finite()) {
    constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
    return {kNan, kNan};
  }
  if (!norms.have_angle()) return {};
  const AdasumScales scales = norms.scales();
  const double half_product = (sums.first - sums.second) / 8 / (scales.first * scales.second);
  return {static_cast<float>(1 - half_product / norms.first), static_cast<float>(1 - half_product / norms.second)};
}

}  // namespace dptrain::ops
