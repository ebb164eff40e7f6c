#pragma once

#include "ops/cuda_kernels.h"

// Sums of long tensors by blocks of threads, in an order that doesn't depend on the GPU. For .cu files only.

namespace dptrain::ops::cuda {

inline constexpr int64_t kRun = 8192;  ///< elements per block

/// Adds up the numbers of a block of kThreads by a tree over its threads. Thread 0 gets the sum, the others 0.
__device__ inline double sum_of_block(double own) {
  __shared__ double shared[kThreads];
  shared[threadIdx.x] = own;
  for (unsigned step = kThreads / 2; step > 0; step /= 2) {
    __syncthreads();
    if (threadIdx.x < step) shared[threadIdx.x] += shared[threadIdx.x + step];
  }
  return threadIdx.x == 0 ? shared[0] : 0;  // thread 0 has written shared[0] itself
}

}  // namespace dptrain::ops::cuda
