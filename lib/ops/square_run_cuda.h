#pragma once

#include "ops/block_sum_cuda.h"
#include "ops/square_digits.h"

// Exact sums of squares by blocks of threads. They are sums of whole numbers, which are the same in any order. Each
// block writes digits of its own, and another block adds them up. For .cu files only.

namespace dptrain::ops::cuda {

inline constexpr int kEach = static_cast<int>(kRun) / kThreads;  ///< values per thread
inline constexpr int kInfinite = 1, kNan = 2;                    ///< what a block writes at kNotFinite

/// A block adds up the squares of f32 values whose stored exponents are in the same window of 32 exponents. A sum of
/// 2^13 of them has 123 bits.
inline constexpr int kExponents = 32, kWindows = 8;
inline constexpr unsigned kInfiniteSeen = 1u << kWindows, kNanSeen = 2u << kWindows;

/// A whole number of 128 bits.
struct Wide {
  uint64_t low = 0, high = 0;

  __device__ void add(uint64_t other_low, uint64_t other_high) {
    low += other_low;
    high += other_high + (low < other_low ? 1 : 0);
  }
};

/// A value's magnitude, as f32 stores it: (2^23 +) fraction times 2^(exponent - 150).
struct Magnitude {
  unsigned bits;

  __device__ explicit Magnitude(float value) { bits = __float_as_uint(value) & 0x7fffffffu; }
  __device__ int exponent() const { return bits >> 23 > 1 ? static_cast<int>(bits >> 23) : 1; }
  /// Returns the window of the value's square as a bit, a flag if the value isn't finite, or 0 if it is zero.
  __device__ unsigned seen() const {
    if (bits == 0) return 0;
    if (bits >= 0x7f800000u) return bits == 0x7f800000u ? kInfiniteSeen : kNanSeen;
    return 1u << exponent() / kExponents;
  }
  __device__ void add_square_to(Wide& sum) const {
    const uint64_t whole = (bits & 0x7fffffu) | (bits >> 23 != 0 ? 0x800000u : 0u), square = whole * whole;
    const int shift = 2 * (exponent() % kExponents);
    sum.add(square << shift, shift > 0 ? square >> (64 - shift) : 0);
  }
};

/// Adds up the numbers of a block's threads. Thread 0 gets the sum.
__device__ inline Wide sum_of_block(const Wide& own) {
  __shared__ uint64_t low[kThreads], high[kThreads];
  __syncthreads();
  low[threadIdx.x] = own.low;
  high[threadIdx.x] = own.high;
  Wide sum = own;
  for (unsigned step = kThreads / 2; step > 0; step /= 2) {
    __syncthreads();
    if (threadIdx.x >= step) continue;
    sum.add(low[threadIdx.x + step], high[threadIdx.x + step]);
    low[threadIdx.x] = sum.low;
    high[threadIdx.x] = sum.high;
  }
  return sum;
}
__device__ inline unsigned seen_by_block(unsigned own) {
  __shared__ unsigned seen;
  __syncthreads();
  if (threadIdx.x == 0) seen = 0;
  __syncthreads();
  if (own != 0) atomicOr(&seen, own);
  __syncthreads();
  return seen;
}

/// Writes the sum of the squares of a block's values to `run`, kSquareSumNumbers numbers. Each of the kThreads threads
/// has some of the values, and 0 for missing ones.
__device__ inline void write_square_run(const float (&own)[kEach], int64_t* run) {
  unsigned seen = 0;
#pragma unroll
  for (const float value : own) seen |= Magnitude(value).seen();
  seen = seen_by_block(seen);
  SquareDigits digits;
  const bool is_finite = (seen & (kInfiniteSeen | kNanSeen)) == 0;
  for (int window = 0; is_finite && window < kWindows; ++window) {
    if ((seen >> window & 1) == 0) continue;
    Wide sum;
#pragma unroll
    for (const float value : own) {
      const Magnitude magnitude(value);
      if (magnitude.exponent() / kExponents == window) magnitude.add_square_to(sum);
    }
    sum = sum_of_block(sum);
    if (threadIdx.x != 0) continue;
    constexpr uint64_t kHalf = 0xffffffffu;
    const int place = 2 * kExponents * window;
    digits.add(static_cast<int64_t>(sum.low & kHalf), place);
    digits.add(static_cast<int64_t>(sum.low >> 32), place + 32);
    digits.add(static_cast<int64_t>(sum.high), place + 64);
  }
  if (threadIdx.x != 0) return;
  for (int digit = 0; digit < kSquareDigits; ++digit) run[digit] = digits.at[digit];
  run[kNotFinite] = ((seen & kInfiniteSeen) != 0 ? kInfinite : 0) | ((seen & kNanSeen) != 0 ? kNan : 0);
}

/// Adds the runs `stride * i`, for i from `begin` to before `end`, to a sum's numbers. A block of kRows *
/// kSquareSumNumbers threads must call it: each thread adds up one number of every kRows-th of these runs.
template <int kRows>
__device__ void add_up_runs(const int64_t* runs, int64_t begin, int64_t end, int64_t stride, double* sum) {
  __shared__ int64_t rows[kRows][kSquareSumNumbers];
  const int row = static_cast<int>(threadIdx.x) / kSquareSumNumbers, number = threadIdx.x % kSquareSumNumbers;
  int64_t own = 0;
#pragma unroll 8
  for (int64_t run = begin + row; run < end; run += kRows) {
    const int64_t other = runs[run * stride * kSquareSumNumbers + number];
    own = number == kNotFinite ? own | other : own + other;
  }
  rows[row][number] = own;
  __syncthreads();
  if (threadIdx.x != 0) return;
  SquareDigits digits = SquareDigits::of(sum);
  int64_t not_finite = 0;
  for (const auto& of_row : rows) {
    for (int digit = 0; digit < kSquareDigits; ++digit) digits.at[digit] += of_row[digit];
    not_finite |= of_row[kNotFinite];
  }
  if (not_finite != 0) {
    sum[kNotFinite] +=
        (not_finite & kNan) != 0 ? __longlong_as_double(0x7ff8000000000000) : __longlong_as_double(0x7ff0000000000000);
    return;
  }
  digits.carry();
  digits.write(sum);
}

}  // namespace dptrain::ops::cuda
