#pragma once

#include <cstdint>

// Vectors of floats, for *_kernels.cc only: each instruction set gets its own, which no other file can see.

namespace dptrain::ops::DPTRAIN_ISA_NAMESPACE {
namespace {

/// L floats that are computed at once; the compiler maps them to the registers there are.
template <int L>
struct Lanes {
  typedef float Vector __attribute__((vector_size(4 * L), aligned(4)));
  typedef int32_t Places __attribute__((vector_size(4 * L)));
};

template <int L>
using Row = typename Lanes<L>::Vector;

template <int L>
inline Row<L> load(const float* from) {
  return *reinterpret_cast<const Row<L>*>(from);
}

template <int L>
inline void store(float* to, Row<L> row) {
  *reinterpret_cast<Row<L>*>(to) = row;
}

/// The square matrix of L rows of L lanes, transposed.
template <int L>
inline void transpose(Row<L> (&rows)[L]) {
#pragma GCC unroll 4
  for (int step = 1; step < L; step *= 2) {
    // Of two rows a step apart, every second run of `step` numbers changes places.
    typename Lanes<L>::Places upper = {}, lower = {};
    for (int lane = 0; lane < L; ++lane) {
      upper[lane] = lane & step ? L + lane - step : lane;
      lower[lane] = lane & step ? L + lane : lane + step;
    }
#pragma GCC unroll 16
    for (int row = 0; row < L; ++row) {
      if (row & step) continue;
      const Row<L> a = rows[row], b = rows[row + step];
      rows[row] = __builtin_shuffle(a, b, upper);
      rows[row + step] = __builtin_shuffle(a, b, lower);
    }
  }
}

/// How the terms of sum_over read: 16 neighbours, or the one element.
struct Sixteen {
  Row<16> operator()(const float* from) const { return load<16>(from); }
};
struct Single {
  float operator()(const float* from) const { return *from; }
};

/// The lanes' combination, as a tree: each with the one half of them further on, until one is left.
template <class Combine>
inline float fold(Row<16> row, const Combine& combine) {
  const Row<8> eight = combine(__builtin_shufflevector(row, row, 0, 1, 2, 3, 4, 5, 6, 7),
                               __builtin_shufflevector(row, row, 8, 9, 10, 11, 12, 13, 14, 15));
  const Row<4> four =
      combine(__builtin_shufflevector(eight, eight, 0, 1, 2, 3), __builtin_shufflevector(eight, eight, 4, 5, 6, 7));
  return combine(combine(four[0], four[2]), combine(four[1], four[3]));
}

/// The sum over i < count of term(read, i), which computes with what read(array + i) gives. In 32 partial sums that are
/// folded as a tree, the same on every instruction set.
template <class Term>
inline float sum_over(int64_t count, const Term& term) {
  Row<16> first{}, second{};
  int64_t i = 0;
  for (; i + 32 <= count; i += 32) {
    first += term(Sixteen(), i);
    second += term(Sixteen(), i + 16);
  }
  if (i + 16 <= count) {
    first += term(Sixteen(), i);
    i += 16;
  }
  float rest = 0;
  for (; i < count; ++i) rest += term(Single(), i);
  return fold(first + second, [](auto a, auto b) { return a + b; }) + rest;
}

/// Of at least one value.
inline float largest_of(const float* values, int64_t count) {
  const auto larger = [](auto a, auto b) { return a > b ? a : b; };
  float largest = values[0];
  int64_t i = 0;
  if (count >= 16) {
    Row<16> first = load<16>(values), second = first;
    for (i = 16; i + 32 <= count; i += 32) {
      first = larger(load<16>(values + i), first);
      second = larger(load<16>(values + i + 16), second);
    }
    for (; i + 16 <= count; i += 16) first = larger(load<16>(values + i), first);
    largest = fold(larger(first, second), larger);
  }
  for (; i < count; ++i) largest = larger(values[i], largest);
  return largest;
}

}  // namespace
}  // namespace dptrain::ops::DPTRAIN_ISA_NAMESPACE
