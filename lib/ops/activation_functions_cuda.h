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

}  // namespace dptrain::ops::cuda
