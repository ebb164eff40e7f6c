#pragma once

#include "ops/winograd_sizes.h"

// The transforms of Winograd's convolution F(4x4, 3x3), for kernels only: each file compiles its own copy for its
// instruction set or GPU.
//
// Four outputs of a filter of three numbers are a product of polynomials, evaluated at the points 0, +-a, +-b and
// infinity:
//   y = O [(F w) * (I x)]     x: 6 inputs, w: 3 weights, y: 4 outputs, * by elements
// In both directions of an image this takes 36 products for 16 outputs instead of 144. Row p of F is (1, p, p^2) /
// N(p). Row p of I holds the coefficients of the product of (x - q) over the other points q; N(p) is its value at p.
// Column p of O is (1, p, p^2, p^3). The gradients are the transposes:
//   weights: F^T [(I x) * (O^T dy)]; inputs: the convolution of dy with the weights turned by 180 degrees.
// Source: Lavin and Gray, Fast Algorithms for Convolutional Neural Networks, 2015, with other points.
//
// V is a number, or a vector of numbers with addition and multiplication by a number.

#if defined(__CUDACC__)
#define DPTRAIN_UNROLL _Pragma("unroll")
#else
#define DPTRAIN_UNROLL _Pragma("GCC unroll 6")
#endif

namespace dptrain::ops {
namespace {

/// The points. Of all pairs of multiples of 1/8 these have the smallest rounding error in f32 over random images and
/// weights, less than half of that of 1 and 2.
constexpr float kA = 0.625F, kB = 1.5F;
constexpr float kA2 = kA * kA, kB2 = kB * kB;
/// 1 / N(p).
constexpr float kOver0 = 1 / (kA2 * kB2), kOverA = 1 / (2 * kA2 * (kA2 - kB2)), kOverB = 1 / (2 * kB2 * (kB2 - kA2));

/// Computes I x.
struct InputTransform {
  static constexpr int kFrom = kWinogradInputs, kTo = kWinogradInputs;
  template <class V>
  static constexpr void apply(const V (&x)[kWinogradInputs], V (&to)[kWinogradInputs]) {
    to[0] = (kA2 * kB2) * x[0] + (x[4] - (kA2 + kB2) * x[2]);
    const V even_a = x[4] - kB2 * x[2], odd_a = x[3] - kB2 * x[1];
    to[1] = even_a + kA * odd_a;
    to[2] = even_a - kA * odd_a;
    const V even_b = x[4] - kA2 * x[2], odd_b = x[3] - kA2 * x[1];
    to[3] = even_b + kB * odd_b;
    to[4] = even_b - kB * odd_b;
    to[5] = (kA2 * kB2) * x[1] + (x[5] - (kA2 + kB2) * x[3]);
  }
};

/// Computes F w.
struct WeightTransform {
  static constexpr int kFrom = kWinogradWeights, kTo = kWinogradInputs;
  template <class V>
  static constexpr void apply(const V (&w)[kWinogradWeights], V (&to)[kWinogradInputs]) {
    to[0] = kOver0 * w[0];
    const V even_a = kOverA * w[0] + (kOverA * kA2) * w[2], odd_a = (kOverA * kA) * w[1];
    to[1] = even_a + odd_a;
    to[2] = even_a - odd_a;
    const V even_b = kOverB * w[0] + (kOverB * kB2) * w[2], odd_b = (kOverB * kB) * w[1];
    to[3] = even_b + odd_b;
    to[4] = even_b - odd_b;
    to[5] = w[2];
  }
};

/// Computes O m.
struct OutputTransform {
  static constexpr int kFrom = kWinogradInputs, kTo = kWinogradOutputs;
  template <class V>
  static constexpr void apply(const V (&m)[kWinogradInputs], V (&y)[kWinogradOutputs]) {
    const V even_a = m[1] + m[2], odd_a = m[1] - m[2], even_b = m[3] + m[4], odd_b = m[3] - m[4];
    y[0] = m[0] + (even_a + even_b);
    y[1] = kA * odd_a + kB * odd_b;
    y[2] = kA2 * even_a + kB2 * even_b;
    y[3] = (kA2 * kA) * odd_a + ((kB2 * kB) * odd_b + m[5]);
  }
};

/// Computes O^T dy.
struct OutputGradientTransform {
  static constexpr int kFrom = kWinogradOutputs, kTo = kWinogradInputs;
  template <class V>
  static constexpr void apply(const V (&dy)[kWinogradOutputs], V (&to)[kWinogradInputs]) {
    to[0] = dy[0];
    const V even_a = dy[0] + kA2 * dy[2], odd_a = dy[1] + kA2 * dy[3];
    to[1] = even_a + kA * odd_a;
    to[2] = even_a - kA * odd_a;
    const V even_b = dy[0] + kB2 * dy[2], odd_b = dy[1] + kB2 * dy[3];
    to[3] = even_b + kB * odd_b;
    to[4] = even_b - kB * odd_b;
    to[5] = dy[3];
  }
};

/// Computes F^T u.
struct WeightGradientTransform {
  static constexpr int kFrom = kWinogradInputs, kTo = kWinogradWeights;
  template <class V>
  static constexpr void apply(const V (&u)[kWinogradInputs], V (&dw)[kWinogradWeights]) {
    const V even_a = u[1] + u[2], odd_a = u[1] - u[2], even_b = u[3] + u[4], odd_b = u[3] - u[4];
    dw[0] = kOver0 * u[0] + (kOverA * even_a + kOverB * even_b);
    dw[1] = (kOverA * kA) * odd_a + (kOverB * kB) * odd_b;
    dw[2] = (kOverA * kA2) * even_a + ((kOverB * kB2) * even_b + u[5]);
  }
};

/// Transforms a square of numbers in both directions: first its columns, then the rows of that result. read(i, j)
/// returns a number of the square; write(i, j, number) receives one of the result.
template <class Transform, class V, class Read, class Write>
constexpr void transform_both_ways(const Read& read, const Write& write) {
  constexpr int kFrom = Transform::kFrom, kTo = Transform::kTo;
  V turned[kFrom][kTo];
  DPTRAIN_UNROLL
  for (int j = 0; j < kFrom; ++j) {
    V column[kFrom];
    DPTRAIN_UNROLL
    for (int i = 0; i < kFrom; ++i) column[i] = read(i, j);
    Transform::apply(column, turned[j]);
  }
  DPTRAIN_UNROLL
  for (int i = 0; i < kTo; ++i) {
    V row[kFrom], result[kTo];
    DPTRAIN_UNROLL
    for (int j = 0; j < kFrom; ++j) row[j] = turned[j][i];
    Transform::apply(row, result);
    DPTRAIN_UNROLL
    for (int j = 0; j < kTo; ++j) write(i, j, result[j]);
  }
}

}  // namespace
}  // namespace dptrain::ops

#undef DPTRAIN_UNROLL
