#pragma once

#include <cstdint>

// Vectors of floats, for *_kernels.cc and *_bf16.cc only: each instruction set compiles its own copy, which no other
// file sees.

namespace dptrain::ops::DPTRAIN_ISA_NAMESPACE {
namespace {

/// Floats of a vector register.
#if defined(__AVX512F__)
constexpr int kRegisterLanes = 16;
#elif defined(__AVX2__)
constexpr int kRegisterLanes = 8;
#else
constexpr int kRegisterLanes = 4;
#endif

/// L floats that are computed at once, and vectors of other types that go with them. L is at most a register's width:
/// GCC keeps wider vectors in memory and compares them float by float.
template <int L>
struct Lanes {
  static_assert(L <= kRegisterLanes);
  typedef float Vector __attribute__((vector_size(4 * L), aligned(4)));
  typedef int32_t Places __attribute__((vector_size(4 * L)));
  typedef uint32_t Bits __attribute__((vector_size(4 * L)));
  typedef int16_t Halves __attribute__((vector_size(2 * L)));
  typedef uint8_t Bytes __attribute__((vector_size(L), aligned(1)));
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

// Conversions between bytes and numbers go by way of halves; GCC 12 converts them one by one if they don't.

template <int L>
inline typename Lanes<L>::Places load_bytes(const uint8_t* from) {
  using Halves = typename Lanes<L>::Halves;
  return __builtin_convertvector(
      __builtin_convertvector(*reinterpret_cast<const typename Lanes<L>::Bytes*>(from), Halves),
      typename Lanes<L>::Places);
}

template <int L>
inline void store_bytes(uint8_t* to, typename Lanes<L>::Places numbers) {
  using Bytes = typename Lanes<L>::Bytes;
  *reinterpret_cast<Bytes*>(to) =
      __builtin_convertvector(__builtin_convertvector(numbers, typename Lanes<L>::Halves), Bytes);
}

/// Transposes a square matrix of L rows of L lanes.
template <int L>
inline void transpose(Row<L> (&rows)[L]) {
#pragma GCC unroll 4
  for (int step = 1; step < L; step *= 2) {
    // In two rows that are `step` apart, every second run of `step` numbers changes places.
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

/// A whole register.
using Register = Row<kRegisterLanes>;

/// 16 floats in as many registers as they need. Sums in 16 lanes are added in the same order on every instruction set.
/// A single float converts to 16 equal ones.
struct Sixteen {
  static constexpr int kRegisters = 16 / kRegisterLanes;
  Register registers[kRegisters];

  Sixteen() : Sixteen(0.f) {}
  Sixteen(float value) {
    // The loop uses an index, not a reference to each register: GCC's sanitizer would expect the reference to have a
    // vector's natural alignment.
    for (int i = 0; i < kRegisters; ++i) registers[i] = Register{} + value;
  }
  /// Makes it from the registers that of(number) returns.
  template <class Of>
  static Sixteen made(const Of& of) {
    Sixteen all;
    for (int i = 0; i < kRegisters; ++i) all.registers[i] = of(i);
    return all;
  }
  static Sixteen load(const float* from) {
    return made([&](int i) { return DPTRAIN_ISA_NAMESPACE::load<kRegisterLanes>(from + i * kRegisterLanes); });
  }
  void store(float* to) const {
    for (int i = 0; i < kRegisters; ++i)
      DPTRAIN_ISA_NAMESPACE::store<kRegisterLanes>(to + i * kRegisterLanes, registers[i]);
  }
};

inline Sixteen operator+(const Sixteen& a, const Sixteen& b) {
  return Sixteen::made([&](int i) { return a.registers[i] + b.registers[i]; });
}
inline Sixteen operator-(const Sixteen& a, const Sixteen& b) {
  return Sixteen::made([&](int i) { return a.registers[i] - b.registers[i]; });
}
inline Sixteen operator*(const Sixteen& a, const Sixteen& b) {
  return Sixteen::made([&](int i) { return a.registers[i] * b.registers[i]; });
}
inline Sixteen& operator+=(Sixteen& a, const Sixteen& b) { return a = a + b; }

/// How the terms of sum_over read: 16 neighboring elements, or one element.
struct ReadSixteen {
  Sixteen operator()(const float* from) const { return Sixteen::load(from); }
};
struct ReadOne {
  float operator()(const float* from) const { return *from; }
};

/// Combines all lanes as a tree: each lane with the one half the width further on, until one is left.
template <int L, class Combine>
inline float fold_row(Row<L> row, const Combine& combine) {
  if constexpr (L == 16)
    return fold_row<8>(combine(__builtin_shufflevector(row, row, 0, 1, 2, 3, 4, 5, 6, 7),
                               __builtin_shufflevector(row, row, 8, 9, 10, 11, 12, 13, 14, 15)),
                       combine);
  else if constexpr (L == 8)
    return fold_row<4>(
        combine(__builtin_shufflevector(row, row, 0, 1, 2, 3), __builtin_shufflevector(row, row, 4, 5, 6, 7)), combine);
  else
    return combine(combine(row[0], row[2]), combine(row[1], row[3]));
}

template <class Combine>
inline float fold(Sixteen all, const Combine& combine) {
  Register* r = all.registers;
  for (int half = Sixteen::kRegisters / 2; half > 0; half /= 2)
    for (int i = 0; i < half; ++i) r[i] = combine(r[i], r[i + half]);
  return fold_row<kRegisterLanes>(r[0], combine);
}

/// Returns the sum over i < count of term(read, i), which should access arrays by read(array + i). 32 partial sums are
/// folded as a tree, in the same order on every instruction set. Whether products are rounded before they are added may
/// differ.
template <class Term>
inline float sum_over(int64_t count, const Term& term) {
  Sixteen first, second;
  int64_t i = 0;
  for (; i + 32 <= count; i += 32) {
    first += term(ReadSixteen(), i);
    second += term(ReadSixteen(), i + 16);
  }
  if (i + 16 <= count) {
    first += term(ReadSixteen(), i);
    i += 16;
  }
  float rest = 0;
  for (; i < count; ++i) rest += term(ReadOne(), i);
  return fold(first + second, [](auto a, auto b) { return a + b; }) + rest;
}

/// Returns the largest of at least one value.
inline float largest_of(const float* values, int64_t count) {
  const auto larger = [](auto a, auto b) { return a > b ? a : b; };
  const auto larger_at = [&](int64_t i, const Sixteen& than) {
    const Sixteen here = Sixteen::load(values + i);
    return Sixteen::made([&](int r) { return larger(here.registers[r], than.registers[r]); });
  };
  float largest = values[0];
  int64_t i = 0;
  if (count >= 16) {
    Sixteen first = Sixteen::load(values), second = first;
    for (i = 16; i + 32 <= count; i += 32) {
      first = larger_at(i, first);
      second = larger_at(i + 16, second);
    }
    for (; i + 16 <= count; i += 16) first = larger_at(i, first);
    largest = fold(Sixteen::made([&](int r) { return larger(first.registers[r], second.registers[r]); }), larger);
  }
  for (; i < count; ++i) largest = larger(values[i], largest);
  return largest;
}

}  // namespace
}  // namespace dptrain::ops::DPTRAIN_ISA_NAMESPACE
