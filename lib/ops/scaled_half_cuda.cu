#include "ops/cuda_kernels.h"
#include "ops/half_range.h"
#include "ops/scaled_half_cuda.h"
#include "ops/warp_cuda.h"

// Bound by memory: 4 bytes per element to find the largest, 6 to scale.

namespace dptrain::ops::cuda {
namespace {

/// Finds the largest magnitude. It compares the bits of magnitudes as whole numbers, which have the same order, with
/// NaNs last. The result doesn't depend on the order of the threads.
__global__ void largest_kernel(const float* values, int64_t count, unsigned* largest) {
  unsigned own = 0;
  for (int64_t i = global_thread(); i < count; i += global_threads()) {
    const unsigned magnitude = __float_as_uint(values[i]) & 0x7fffffffu;
    own = magnitude > own ? magnitude : own;
  }
  for (int step = 16; step > 0; step /= 2) {
    const unsigned other = __shfl_xor_sync(kAllLanes, own, step);
    own = other > own ? other : own;
  }
  if (threadIdx.x % 32 == 0) atomicMax(largest, own);
}

__device__ HalfRange range_of(const float* bound) { return half_range(__float_as_uint(*bound)); }

__global__ void to_f16_kernel(const float* values, const float* bound, __half* to, int64_t count) {
  const float factor = __uint_as_float(range_of(bound).factor);
  for (int64_t i = global_thread(); i < count; i += global_threads()) to[i] = __float2half_rn(values[i] * factor);
}

__global__ void from_f16_kernel(const __half* halves, const float* bound, float* to, int64_t count) {
  const float inverse = __uint_as_float(range_of(bound).inverse);
  for (int64_t i = global_thread(); i < count; i += global_threads()) to[i] = __half2float(halves[i]) * inverse;
}

}  // namespace

Tensor largest_magnitude(const Tensor& values) {
  const Tensor largest = Tensor::zeros(values.device(), {1}, {.purpose = MemoryPurpose::workspace});
  const int64_t count = values.storage_elements();
  if (count > 0)
    launch("largest", values, blocks_for(values, count), kThreads, largest_kernel, values.data<float>(), count,
           reinterpret_cast<unsigned*>(largest.data<float>()));
  return largest;
}

void scale_to_f16(const Tensor& values, const Tensor& bound, const Tensor& to) {
  const int64_t count = values.storage_elements();
  if (count == 0) return;
  launch("to_f16", values, blocks_for(values, count), kThreads, to_f16_kernel, values.data<float>(),
         bound.data<float>(), to.data<__half>(), count);
}

void scale_from_f16(const Tensor& halves, const Tensor& bound, const Tensor& to) {
  const int64_t count = to.storage_elements();
  if (count == 0) return;
  launch("from_f16", to, blocks_for(to, count), kThreads, from_f16_kernel, halves.data<__half>(), bound.data<float>(),
         to.data<float>(), count);
}

}  // namespace dptrain::ops::cuda
