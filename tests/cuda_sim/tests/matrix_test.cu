// A warp's matrix products: layouts, sums, and what CUDA leaves undefined.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <mma.h>

#include <cstdlib>

#include "machine.h"

namespace {

namespace wmma = nvcuda::wmma;

using Sums = wmma::fragment<wmma::accumulator, 16, 16, 16, float>;

/// Computes c += a * b for each of the block's warps, which have separate matrices; rows are 24 elements apart.
template <typename T, typename LayoutA, typename LayoutB>
__global__ void multiply(const T* a, const T* b, float* c, wmma::layout_t layout) {
  const int warp = static_cast<int>(threadIdx.y) * 16 * 24;
  wmma::fragment<wmma::matrix_a, 16, 16, 16, T, LayoutA> left;
  wmma::fragment<wmma::matrix_b, 16, 16, 16, T, LayoutB> right;
  Sums sums;
  wmma::load_matrix_sync(left, a + warp, 24);
  wmma::load_matrix_sync(right, b + warp, 24);
  wmma::load_matrix_sync(sums, c + warp, 24, layout);
  wmma::mma_sync(sums, left, right, sums);
  wmma::store_matrix_sync(c + warp, sums, 24, layout);
}

/// Whole numbers up to 7: sums of 16 products of them are exact.
float number(int matrix, int row, int column) { return static_cast<float>((matrix * 5 + row * 3 + column * 7) % 8); }
std::size_t at(int warp, int row, int column, bool rows) {
  return static_cast<std::size_t>(16 * 24 * warp + (rows ? 24 * row + column : 24 * column + row));
}

template <typename T, typename LayoutA, typename LayoutB>
void expect_products(bool sums_by_rows) {
  constexpr bool kRowsA = std::is_same_v<LayoutA, wmma::row_major>, kRowsB = std::is_same_v<LayoutB, wmma::row_major>;
  std::vector<T> a(2 * 16 * 24), b(a.size());
  std::vector<float> c(a.size(), 0.5f);
  for (int warp = 0; warp < 2; ++warp)
    for (int i = 0; i < 256; ++i) {
      a[at(warp, i / 16, i % 16, kRowsA)] = T(number(warp, i / 16, i % 16));
      b[at(warp, i / 16, i % 16, kRowsB)] = T(number(warp + 2, i / 16, i % 16));
    }
  Array<T> left(a), right(b);
  Array<float> sums(c);
  ASSERT_EQ(launch(nullptr, 1, dim3(32, 2), multiply<T, LayoutA, LayoutB>, left.data, right.data, sums.data,
                   sums_by_rows ? wmma::mem_row_major : wmma::mem_col_major),
            cudaSuccess);
  const std::vector<float> got = sums.read();
  for (int warp = 0; warp < 2; ++warp)
    for (int row = 0; row < 16; ++row)
      for (int column = 0; column < 16; ++column) {
        float expected = 0.5f;
        for (int i = 0; i < 16; ++i) expected += number(warp, row, i) * number(warp + 2, i, column);
        EXPECT_EQ(got[at(warp, row, column, sums_by_rows)], expected) << warp << ' ' << row << ' ' << column;
      }
}

TEST(Matrix, ProductsOfAllLayouts) {
  expect_products<__half, wmma::row_major, wmma::row_major>(true);
  expect_products<__nv_bfloat16, wmma::row_major, wmma::col_major>(true);
  expect_products<__nv_bfloat16, wmma::col_major, wmma::row_major>(false);
  expect_products<__half, wmma::col_major, wmma::col_major>(false);
}

/// A lane's elements change sign; then each lane reads an element that another lane may have written.
template <bool kWaits>
__global__ void negate(const float* from, float* to) {
  __shared__ float room[256 + 8];
  float* memory = room;
  while (reinterpret_cast<uintptr_t>(memory) % 32 != 0) ++memory;
  Sums sums;
  wmma::load_matrix_sync(sums, from, 16, wmma::mem_row_major);
  for (int e = 0; e < sums.num_elements; ++e) sums.x[e] = -sums.x[e];
  wmma::store_matrix_sync(memory, sums, 16, wmma::mem_row_major);
  if (kWaits) __syncwarp();
  for (unsigned i = threadIdx.x; i < 256; i += 32) to[i] = memory[i];
}

template <bool kWaits>
std::vector<float> negated(const char* order) {
  setenv("DPTRAIN_CUDA_SIM_ORDER", order, 1);
  std::vector<float> numbers(256);
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<float>(i + 1);
  Array<float> from(numbers), zeros(std::vector<float>(256, 0.f)), to(256);
  launch(nullptr, 1, 32, negate<true>, zeros.data, to.data);  // what an earlier block left in shared memory
  EXPECT_EQ(launch(nullptr, 1, 32, negate<kWaits>, from.data, to.data), cudaSuccess);
  std::vector<float> result = to.read();
  unsetenv("DPTRAIN_CUDA_SIM_ORDER");
  return result;
}

TEST(Matrix, ElementsArePlacedOnceAndSeenAfterABarrier) {
  const std::vector<float> expected = negated<true>("forward");
  for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_EQ(expected[i], -static_cast<float>(i + 1));
  EXPECT_EQ(negated<true>("reverse"), expected);
  EXPECT_NE(negated<false>("forward"), expected);
}

__global__ void load(const float* from, unsigned stride, bool all) {
  if (!all && threadIdx.x == 7) return;
  Sums sums;
  wmma::load_matrix_sync(sums, from, stride, wmma::mem_row_major);
}

TEST(Matrix, WhatCudaLeavesUndefinedIsAStickyError) {
  Array<float> memory(1024);
  const auto expect_failure = [&](std::size_t offset, unsigned stride, bool all) {
    ASSERT_EQ(launch(nullptr, 1, 32, load, memory.data + offset, stride, all), cudaSuccess);
    EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorLaunchFailure);
    EXPECT_EQ(cudaDeviceReset(), cudaSuccess);
  };
  expect_failure(4, 16, true);
  expect_failure(0, 18, true);
  expect_failure(0, 16, false);
  ASSERT_EQ(launch(nullptr, 1, 32, load, memory.data, 16, true), cudaSuccess);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
}

}  // namespace
