#pragma once

#include "ops/cuda_kernels.h"

// What a step of stochastic gradient descent does to a pack of weights. For .cu files only.

namespace dptrain::ops::cuda {

/// The learning rate and weight decay of weights that are updated alike.
struct SgdRates {
  float rate;
  float decay;
};

struct SgdUpdate {
  float momentum;
  bool nesterov;

  /// Updates one weight. It fuses as the CPU's kernels do: a product that is added is one fma. `velocity` is null
  /// without momentum.
  __device__ void apply(const SgdRates& own, float& weight, float gradient, float* velocity) const {
    const float g = fmaf(own.decay, weight, gradient);
    if (velocity == nullptr) {
      weight = fmaf(-own.rate, g, weight);
      return;
    }
    *velocity = fmaf(momentum, *velocity, g);
    weight = fmaf(-own.rate, nesterov ? fmaf(momentum, *velocity, g) : *velocity, weight);
  }
};

/// Updates V weights from `at` on. `Copy` is the type of the copy that operators read, or float if there is no copy.
template <int V, class Copy>
__device__ void update_sgd_pack(int64_t at, float* weights, const float* gradients, float* velocities, Copy* copies,
                                const SgdUpdate& step, const SgdRates& own, float gradient_factor) {
  auto weight = Pack<float, V>::load(weights + at);
  const auto gradient = Pack<float, V>::load(gradients + at);
  Pack<float, V> velocity;
  if (velocities != nullptr) velocity = Pack<float, V>::load(velocities + at);
  for (int i = 0; i < V; ++i)
    step.apply(own, weight.at[i], gradient.at[i] * gradient_factor, velocities != nullptr ? &velocity.at[i] : nullptr);
  weight.store(weights + at);
  if (velocities != nullptr) velocity.store(velocities + at);
  if (copies == nullptr) return;
  Pack<Copy, V> copy;
  for (int i = 0; i < V; ++i) copy.set(i, weight.at[i]);
  copy.store(copies + at);
}

}  // namespace dptrain::ops::cuda
