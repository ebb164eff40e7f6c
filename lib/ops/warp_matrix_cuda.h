#pragma once

#include <cuda_bf16.h>
#include <mma.h>

#include <cstdint>

// Matrices of 16x16 that a warp multiplies on tensor cores, and adds in float. For .cu files only.

namespace dptrain::ops::cuda {

using nvcuda::wmma::col_major;
using nvcuda::wmma::row_major;

using MatrixSum = nvcuda::wmma::fragment<nvcuda::wmma::accumulator, 16, 16, 16, float>;
template <class T, class Layout>
using LeftMatrix = nvcuda::wmma::fragment<nvcuda::wmma::matrix_a, 16, 16, 16, T, Layout>;
template <class T, class Layout>
using RightMatrix = nvcuda::wmma::fragment<nvcuda::wmma::matrix_b, 16, 16, 16, T, Layout>;

/// Loads a factor from shared memory. The address `from` is a multiple of 32 bytes. Rows (or columns) are `stride`
/// elements apart, a multiple of 8.
template <class Factor, class T>
__device__ void load_shared(Factor& to, const T* from, unsigned stride) {
  nvcuda::wmma::load_matrix_sync(to, from, stride);
}

#if defined(__CUDA_ARCH__)
// nvcc 13 doesn't see that a bf16 matrix is in shared memory. It would load 32 bits per lane and instruction; ldmatrix
// loads 128, and transposes on the way.
#define DPTRAIN_LOAD_SHARED(Factor, Layout, name)                                                                     \
  template <>                                                                                                         \
  __device__ inline void load_shared(Factor<__nv_bfloat16, Layout>& to, const __nv_bfloat16* from, unsigned stride) { \
    static_assert(sizeof(to) == 4 * sizeof(uint32_t));                                                                \
    auto* words = reinterpret_cast<uint32_t*>(&to);                                                                   \
    asm volatile("wmma.load." name ".m16n16k16.shared.bf16 {%0, %1, %2, %3}, [%4], %5;"                               \
                 : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])                                     \
                 : "r"(static_cast<uint32_t>(__cvta_generic_to_shared(from))), "r"(stride)                            \
                 : "memory");                                                                                         \
  }
DPTRAIN_LOAD_SHARED(LeftMatrix, row_major, "a.sync.aligned.row")
DPTRAIN_LOAD_SHARED(LeftMatrix, col_major, "a.sync.aligned.col")
DPTRAIN_LOAD_SHARED(RightMatrix, row_major, "b.sync.aligned.row")
DPTRAIN_LOAD_SHARED(RightMatrix, col_major, "b.sync.aligned.col")
#undef DPTRAIN_LOAD_SHARED
#endif

}  // namespace dptrain::ops::cuda
