#pragma once

#include <cuda_runtime.h>

// Activations of one float on the GPU, whatever kernel they are part of. For .cu files only.

namespace dptrain::ops::cuda {

/// Returns the probability that a standard normal variable is less than x. erfc keeps its digits in the tail.
__device__ inline float normal_below(float x) { return 0.5f * erfcf(-0.70710678118654752f * x); }

/// GELU, x * normal_below(x), without the approximation by tanh (Hendrycks and Gimpel, 2016).
__device__ inline float gelu_of(float x) { return x * normal_below(x); }

/// Returns the derivative of gelu_of at x. The fmaf says which product isn't rounded, so that every kernel gets the
/// same bits.
__device__ inline float gelu_slope_of(float x) {
  constexpr float kOfDensity = 0.39894228040143268f;  // 1 / sqrt(2 pi)
  return fmaf(x * expf(-0.5f * x * x), kOfDensity, normal_below(x));
}

/// The logistic function at x, and 1 minus its value without loss of digits.
struct Logistic {
  float value, rest;
};
__device__ inline Logistic sigmoid_at(float x) {
  const float tail = expf(-fabsf(x));
  const float large = 1.f / (1.f + tail), small = tail / (1.f + tail);
  return x < 0.f ? Logistic{small, large} : Logistic{large, small};
}

__device__ inline float silu_slope_of(float x) {
  const Logistic at = sigmoid_at(x);
  return at.value * fmaf(x, at.rest, 1.f);
}

}  // namespace dptrain::ops::cuda
