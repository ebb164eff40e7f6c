// Replaces the toolkit's mma.h: a warp's matrix products of 16x16x16, with matrices in row-major or column-major
// memory. Names and rules: CUDA C++ Programming Guide, "Warp Matrix Functions". See ../README.md.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <type_traits>

namespace nvcuda::wmma {

struct row_major {};
struct col_major {};
struct matrix_a {};
struct matrix_b {};
struct accumulator {};
enum layout_t { mem_row_major, mem_col_major };

/// A lane's 8 of 16 x 16 elements. CUDA doesn't say which elements these are: here they are scattered, differently for
/// each use.
template <typename Use, int m, int n, int k, typename T, typename Layout = void>
struct fragment {
  static_assert(m == 16 && n == 16 && k == 16, "the simulator has products of 16x16x16");
  static constexpr bool kAccumulates = std::is_same_v<Use, accumulator>;
  static_assert(kAccumulates == std::is_void_v<Layout>, "factors have a layout, accumulators none");
  static_assert(std::is_same_v<T, float> == kAccumulates, "the simulator multiplies bf16 or f16, and adds in float");
  static constexpr int num_elements = 8;
  T x[num_elements];

  /// The number, 16 * row + column, of the lane's element e. An odd factor keeps all 256 numbers distinct.
  static int place(int lane, int e) {
    constexpr int kFactor = kAccumulates ? 89 : std::is_same_v<Use, matrix_a> ? 45 : 203;
    return (8 * lane + e) * kFactor % 256;
  }
};

}  // namespace nvcuda::wmma

namespace dptrain::cuda_sim {

/// The matrices that the lanes of a block's warps have given to their product.
struct MatrixProduct {
  const void* a;
  const void* b;
  const void* c;
  void* d;
};
inline thread_local MatrixProduct matrix_products[32][32];

inline int warp_of_block() {
  return static_cast<int>(((threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x) / 32);
}
inline void all_lanes() { exchange(0xffffffffu, 0, 0, Exchange::kSync); }

/// Faults where CUDA leaves the behavior undefined.
inline void require_matrix(const void* memory, unsigned stride, unsigned element_bytes) {
  if (reinterpret_cast<std::uintptr_t>(memory) % 32 != 0)
    fault("a matrix that doesn't begin at a multiple of 32 bytes");
  if (stride * element_bytes % 16 != 0) fault("a matrix whose rows aren't a multiple of 16 bytes apart");
}

inline std::size_t offset(int place, unsigned stride, bool rows) {
  const auto row = static_cast<unsigned>(place / 16), column = static_cast<unsigned>(place % 16);
  return rows ? std::size_t{row} * stride + column : std::size_t{column} * stride + row;
}

/// A lane reads before it waits for the other lanes, and writes after: their writes are not visible without __syncwarp.
template <typename Fragment, typename T>
void load_matrix(Fragment& to, const T* from, unsigned stride, bool rows) {
  require_matrix(from, stride, sizeof(T));
  for (int e = 0; e < Fragment::num_elements; ++e) to.x[e] = from[offset(Fragment::place(lane(), e), stride, rows)];
  all_lanes();
}

template <typename Fragment, typename T>
void gather(const Fragment& from, int lane, T* to) {
  for (int e = 0; e < Fragment::num_elements; ++e) to[Fragment::place(lane, e)] = T(from.x[e]);
}

}  // namespace dptrain::cuda_sim

namespace nvcuda::wmma {

template <typename Use, typename T, typename Layout>
void load_matrix_sync(fragment<Use, 16, 16, 16, T, Layout>& to, const T* from, unsigned stride) {
  static_assert(!std::is_void_v<Layout>);
  dptrain::cuda_sim::load_matrix(to, from, stride, std::is_same_v<Layout, row_major>);
}
inline void load_matrix_sync(fragment<accumulator, 16, 16, 16, float>& to, const float* from, unsigned stride,
                             layout_t layout) {
  dptrain::cuda_sim::load_matrix(to, from, stride, layout == mem_row_major);
}

inline void store_matrix_sync(float* to, const fragment<accumulator, 16, 16, 16, float>& from, unsigned stride,
                              layout_t layout) {
  namespace sim = dptrain::cuda_sim;
  sim::require_matrix(to, stride, sizeof(float));
  sim::all_lanes();
  for (int e = 0; e < from.num_elements; ++e)
    to[sim::offset(from.place(sim::lane(), e), stride, layout == mem_row_major)] = from.x[e];
}

template <typename Use, typename T, typename Layout>
void fill_fragment(fragment<Use, 16, 16, 16, T, Layout>& to, const std::type_identity_t<T>& value) {
  for (T& x : to.x) x = value;
}

/// Computes d = a * b + c. One lane multiplies for all.
template <typename T, typename LayoutA, typename LayoutB>
void mma_sync(fragment<accumulator, 16, 16, 16, float>& d, const fragment<matrix_a, 16, 16, 16, T, LayoutA>& a,
              const fragment<matrix_b, 16, 16, 16, T, LayoutB>& b, const fragment<accumulator, 16, 16, 16, float>& c) {
  namespace sim = dptrain::cuda_sim;
  using A = fragment<matrix_a, 16, 16, 16, T, LayoutA>;
  using B = fragment<matrix_b, 16, 16, 16, T, LayoutB>;
  using C = fragment<accumulator, 16, 16, 16, float>;
  auto& lanes = sim::matrix_products[sim::warp_of_block()];
  lanes[sim::lane()] = {&a, &b, &c, &d};
  sim::all_lanes();
  if (sim::lane() == 0) {
    float left[256], right[256], sums[256];
    for (int lane = 0; lane < 32; ++lane) {
      sim::gather(*static_cast<const A*>(lanes[lane].a), lane, left);
      sim::gather(*static_cast<const B*>(lanes[lane].b), lane, right);
      sim::gather(*static_cast<const C*>(lanes[lane].c), lane, sums);
    }
    for (int row = 0; row < 16; ++row)
      for (int i = 0; i < 16; ++i)
        for (int column = 0; column < 16; ++column)
          sums[16 * row + column] += left[16 * row + i] * right[16 * i + column];
    for (int lane = 0; lane < 32; ++lane)
      for (int e = 0; e < C::num_elements; ++e) static_cast<C*>(lanes[lane].d)->x[e] = sums[C::place(lane, e)];
  }
  sim::all_lanes();
}

}  // namespace nvcuda::wmma
