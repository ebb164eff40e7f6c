#pragma once

#include <cuda_runtime.h>

// Activations of one float on the GPU, whatever kernel they are part of. For .cu files only.

namespace dptrain::ops::cuda {

/// The probability of less than x in a standard normal distribution. By erfc, which keeps its digits in the tail.
__device__ inline float normal_below(float x) { return 0.5f * erfcf(-0.70710678118654752f * x); }

/// x times that: GELU without the approximation by tanh (Hendrycks and Gimpel, 2016).
__device__ inline float gelu_of(float x) { return x * normal_below(x); }

/// The same bits in every kernel: of a sum of products it says itself which is not rounded.
__device__ inline float gelu_slope_of(float x) {
  constexpr float kOfDensity = 0.39894228040143268f;  // 1 / sqrt(2 pi)
  return fmaf(x * expf(-0.5f * x * x), kOfDensity, normal_below(x));
}

/// The logistic function at x, and 1 minus that with all of its digits.
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
