#pragma once

#include <cstdint>

#include "ops/vector_lanes.h"

// Functions of a float, or of a register of floats, without branches or calls, so that the compiler vectorizes loops
// over them. For *_kernels.cc and *_bf16.cc only: each instruction set compiles its own copy, which no other file sees.
//
// Unless noted, the polynomials are those of the Cephes library's single precision functions (S. Moshier,
// netlib.org/cephes: expf.c, tanhf.c).

namespace dptrain::ops::DPTRAIN_ISA_NAMESPACE {
namespace {

inline int32_t bits_of(float x) { return __builtin_bit_cast(int32_t, x); }
inline float float_of(int32_t bits) { return __builtin_bit_cast(float, bits); }
inline float absolute(float x) { return float_of(bits_of(x) & 0x7fffffff); }

/// c[0] + c[1] x + c[2] x^2 + ...
template <class Number, int N>
inline Number polynomial(Number x, const float (&c)[N]) {
  Number sum = Number{} + c[N - 1];
  for (int i = N - 2; i >= 0; --i) sum = sum * x + c[i];
  return sum;
}

/// exp(x + rest), for x up to 88 and a small `rest` that is below x's precision. Within 2 units in the last place; 0 if
/// the result would be denormal.
inline float exp_of(float x, float rest = 0.f) {
  constexpr float kRound = 12582912.f;  // 1.5 * 2^23: adding it leaves the nearest integer in the lowest bits
  constexpr float kCoefficients[] = {5.0000001201e-1f, 1.6666665459e-1f, 4.1665795894e-2f,
                                     8.3334519073e-3f, 1.3981999507e-3f, 1.9875691500e-4f};
  const float rounded = x * 1.44269504088896341f + kRound;
  const float n = rounded - kRound;
  // log(2) in two parts, so that n times the first part is exact.
  const float r = (x - n * 0.693359375f) + n * 2.12194440e-4f + rest;
  const float value = polynomial(r, kCoefficients) * r * r + r + 1.f;
  // The lowest bits of `rounded` make the factor 2^n. Adding n to the exponent instead would turn some NaNs into
  // numbers.
  return x < -87.f ? 0.f : value * float_of((bits_of(rounded) << 23) + 0x3f800000);
}

/// 2^x in each lane, for x up to 127, within 2 units in the last place. Results below 2^-100 become 2^-100, because
/// products of smaller numbers could become denormal, which is slow. The polynomial has the smallest relative error on
/// -1/2 to 1/2, 2e-9.
inline Register exp2_of(Register x) {
  using Places = Lanes<kRegisterLanes>::Places;
  constexpr float kRound = 12582912.f;  // as above
  constexpr float kCoefficients[] = {1.f,
                                     6.931471824645996e-1f,
                                     2.4022647738456726e-1f,
                                     5.5503323674201965e-2f,
                                     9.61843691766262e-3f,
                                     1.3398875016719103e-3f,
                                     1.5353361959569156e-4f};
  const Register capped = x < -100.f ? Register{} - 100.f : x;
  const Register rounded = capped + kRound;
  const Register value = polynomial(capped - (rounded - kRound), kCoefficients);
  return value * __builtin_bit_cast(Register, (__builtin_bit_cast(Places, rounded) << 23) + 0x3f800000);
}
inline Sixteen exp2_of(const Sixteen& x) {
  return Sixteen::made([&](int i) { return exp2_of(x.registers[i]); });
}

/// exp(x) of a double, for x up to 709, within 4 units in the last place; 0 below -708.
inline double exact_exp_of(double x) {
  constexpr double kRound = 6755399441055744.;  // 1.5 * 2^52
  // 1 / k!: the omitted terms are below 2^-57 at half of log(2).
  constexpr double kCoefficients[] = {
      1.,        1.,         1. / 2,      1. / 6,       1. / 24,       1. / 120,       1. / 720,
      1. / 5040, 1. / 40320, 1. / 362880, 1. / 3628800, 1. / 39916800, 1. / 479001600, 1. / 6227020800.};
  const double rounded = x * 1.4426950408889634 + kRound;
  const double n = rounded - kRound;
  // log(2) in two parts, so that n times the first part is exact.
  const double r = (x - n * 6.93145751953125e-1) - n * 1.42860682030941723212e-6;
  double sum = kCoefficients[13];
  for (int i = 12; i >= 0; --i) sum = sum * r + kCoefficients[i];
  const auto bits = __builtin_bit_cast(int64_t, rounded) - __builtin_bit_cast(int64_t, kRound) + 1023;
  const double value = sum * __builtin_bit_cast(double, bits << 52);
  return x < -708. ? 0. : value;
}

/// tanh(x), within 2 units in the last place.
inline float tanh_of(float x) {
  constexpr float kCoefficients[] = {-3.33332819422e-1f, 1.33314422036e-1f, -5.37397155531e-2f, 2.06390887954e-2f,
                                     -5.70498872745e-3f};
  const float a = absolute(x);
  const float near_zero = polynomial(x * x, kCoefficients) * x * x * x + x;
  const float capped = a < 10.f ? a : 10.f;  // tanh(10) rounds to 1
  const float far = 1.f - 2.f / (exp_of(2.f * capped) + 1.f);
  const float with_sign = x < 0.f ? -far : far;
  const float value = a < 0.625f ? near_zero : with_sign;
  return x == x ? value : x;
}

/// The logistic function at x.
struct Logistic {
  float value;  ///< 1 / (1 + exp(-x)), within 3 units in the last place if exp(-|x|) isn't denormal, else 0 or 1
  float rest;   ///< 1 minus `value`, equally precise: the function at -x
};
inline Logistic sigmoid_at(float x) {
  const float tail = exp_of(-absolute(x));
  const float large = 1.f / (1.f + tail), small = tail / (1.f + tail);
  const Logistic at{.value = x < 0.f ? small : large, .rest = x < 0.f ? large : small};
  return {.value = x == x ? at.value : x, .rest = x == x ? at.rest : x};
}

/// The standard normal distribution at x.
struct Normal {
  float below;  ///< the probability of a number below x: (1 + erf(x / sqrt 2)) / 2, relative error at most 1e-6
  float bell;   ///< exp(-x^2 / 2)
};
inline Normal normal_at(float x) {
  // (1 - erf(z)) / 2 = t exp(-z^2) times a polynomial of t = 1 / (1 + 0.3 z), for z >= 0. This is the form of Numerical
  // Recipes' erfcc, with the coefficients of smallest relative error, 2e-8.
  constexpr float kTail[] = {8.459465950727463e-2f,  8.534570783376694e-2f, 7.425888627767563e-2f,
                             1.0709752887487411e-1f, -4.64291013777256e-2f, 2.725069522857666e-1f,
                             -2.549069821834564e-1f, 2.421610802412033e-1f, -6.462874263525009e-2f};
  // x^2 = high^2 + rest, where high is the upper 12 bits of x, so that its square is exact. In the tail the exponent is
  // large, and so would be the effect of its rounding error.
  const float high = float_of(bits_of(x) & ~0xfff);
  const float rest = (x - high) * (x + high);
  const float bell = exp_of(-0.5f * high * high, -0.5f * rest);
  const float t = 1.f / (1.f + 0.21213203435596426f * absolute(x));
  const float tail = bell * t * polynomial(t, kTail);
  return {.below = x < 0.f ? tail : 1.f - tail, .bell = bell};
}

/// x times the probability of a number below x (Hendrycks and Gimpel, 2016): exact, not the tanh approximation.
inline float gelu_of(float x) { return x * normal_at(x).below; }

inline float gelu_slope_of(float x) {
  const Normal normal = normal_at(x);
  return normal.below + x * normal.bell * 0.39894228040143268f;  // 1 / sqrt(2 pi)
}

}  // namespace
}  // namespace dptrain::ops::DPTRAIN_ISA_NAMESPACE
