#pragma once

#include "ops/cuda_kernels.h"

// Numbers of the lanes of a warp folded by shuffles, always in the same order. For .cu files only.

namespace dptrain::ops::cuda {

inline constexpr unsigned kAllLanes = 0xffffffffu;

/// Warps of a block in which each takes a row of its own: blocks are (32, kWarps) threads.
inline constexpr int kWarps = 8;
inline dim3 block_of_warps() { return dim3(32, kWarps); }
inline unsigned blocks_of_rows(int64_t rows) { return static_cast<unsigned>((rows + kWarps - 1) / kWarps); }
__device__ inline int64_t row_of_warp() { return int64_t{blockIdx.x} * kWarps + threadIdx.y; }

/// The lanes' numbers added up, on all of them.
template <class T>
__device__ T sum_of_warp(T own) {
  for (int step = 16; step > 0; step /= 2) own += __shfl_xor_sync(kAllLanes, own, step);
  return own;
}

}  // namespace dptrain::ops::cuda
