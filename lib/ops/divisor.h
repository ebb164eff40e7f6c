#pragma once

#include <bit>
#include <cstdint>

namespace dptrain::ops {

/// Divides non-negative numbers by a fixed divisor, as kernels do for every element to find its place.
template <class I>
class Divisor {
 public:
  constexpr explicit Divisor(I by) : by_(by) {}
  constexpr I by() const { return by_; }
  constexpr I quotient(I number) const { return number / by_; }

 private:
  I by_;
};

/// The 32-bit divisor uses a multiplication and a shift, since a division takes some twenty instructions on a GPU. The
/// multiplier is 2^32 * 2^shift / by, rounded up, less 2^32 (Granlund and Montgomery, Division by Invariant Integers
/// using Multiplication, 1994): exact for numbers below 2^31.
template <>
class Divisor<int32_t> {
 public:
  constexpr explicit Divisor(int32_t by)
      : by_(by),
        shift_(static_cast<uint32_t>(std::bit_width(static_cast<uint32_t>(by - 1)))),
        multiplier_(static_cast<uint32_t>(
            (((uint64_t{1} << shift_) - static_cast<uint64_t>(by)) << 32) / static_cast<uint64_t>(by) + 1)) {}
  constexpr int32_t by() const { return by_; }
  constexpr int32_t quotient(int32_t number) const {
    const auto n = static_cast<uint32_t>(number);
    const auto high = static_cast<uint32_t>(uint64_t{n} * multiplier_ >> 32);
    return static_cast<int32_t>((high + n) >> shift_);
  }

 private:
  int32_t by_;
  uint32_t shift_;
  uint32_t multiplier_;
};

}  // namespace dptrain::ops
