#pragma once

#include "ops/cuda_kernels.h"

// Folds the numbers of a warp's lanes by shuffles, always in the same order. For .cu files only.

namespace dptrain::ops::cuda {

inline constexpr unsigned kAllLanes = 0xffffffffu;

/// The warps of a block in which each warp takes a row of its own. Such blocks are (32, kWarps) threads.
inline constexpr int kWarps = 8;
inline dim3 block_of_warps() { return dim3(32, kWarps); }
inline unsigned blocks_of_rows(int64_t rows) { return static_cast<unsigned>((rows + kWarps - 1) / kWarps); }
__device__ inline int64_t row_of_warp() { return int64_t{blockIdx.x} * kWarps + threadIdx.y; }

/// Adds up the lanes' numbers. All lanes get the sum.
template <class T>
__device__ T sum_of_warp(T own) {
  for (int step = 16; step > 0; step /= 2) own += __shfl_xor_sync(kAllLanes, own, step);
  return own;
}

}  // namespace dptrain::ops::cuda
