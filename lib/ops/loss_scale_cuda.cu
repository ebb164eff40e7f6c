#include "ops/cuda_kernels.h"
#include "ops/loss_scale_cuda.h"

namespace dptrain::ops::cuda {
namespace {

constexpr float kSmallest = 1.f;
constexpr float kLargest = 16777216.f;

/// Reads 4 bytes per gradient. As nothing is written in between, a thread has the loads of several packs in flight at
/// once. All threads that find a number that isn't finite write the same value, so no atomics are needed.
template <int V>
__global__ void find_nonfinite_kernel(const float* __restrict__ gradients, int64_t packs, int32_t* __restrict__ found) {
  bool any = false;
#pragma unroll 4
  for (int64_t i = global_thread(); i < packs; i += global_threads()) {
    const auto pack = Pack<float, V>::load(gradients + i * V);
#pragma unroll
    for (int k = 0; k < V; ++k) any |= !isfinite(pack.at[k]);
  }
  if (any) *found = 1;
}

__global__ void update_kernel(float* scale, float* inverse, int32_t* found, int32_t* good, int64_t* skipped,
                              int growth_interval) {
  if (*found != 0) {
    *scale = *scale * 0.5f > kSmallest ? *scale * 0.5f : kSmallest;
    *good = 0;
    ++*skipped;
  } else if (++*good >= growth_interval) {
    *scale = *scale * 2.f < kLargest ? *scale * 2.f : kLargest;
    *good = 0;
  }
  *inverse = 1.f / *scale;
  *found = 0;
}

}  // namespace

void find_nonfinite(const Tensor& gradients, const Tensor& found) {
  const int64_t count = gradients.storage_elements();
  if (count == 0) return;
  const auto run = [&](auto kernel, int64_t packs) {
    launch("find_nonfinite", gradients, blocks_for(gradients, packs), kThreads, kernel, gradients.data<float>(), packs,
           found.data<int32_t>());
  };
  if (in_packs(count, 4, {gradients.data<float>()}))
    run(find_nonfinite_kernel<4>, count / 4);
  else
    run(find_nonfinite_kernel<1>, count);
}

void update_loss_scale(const LossScaleState& state, int growth_interval) {
  launch("update_loss_scale", state.scale, 1, 1, update_kernel, state.scale.data<float>(), state.inverse.data<float>(),
         state.found.data<int32_t>(), state.good.data<int32_t>(), state.skipped.data<int64_t>(), growth_interval);
}

}  // namespace dptrain::ops::cuda
