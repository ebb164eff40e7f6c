// Grids: barriers, warp exchanges, order, and refused launches.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "machine.h"

namespace {

template <bool kBarrier>
__global__ void rotate(const int* in, int* out) {
  __shared__ int values[64];
  values[threadIdx.x] = in[threadIdx.x];
  if (kBarrier) __syncthreads();
  out[threadIdx.x] = values[(threadIdx.x + 1) % blockDim.x];
}

template <bool kBarrier>
std::vector<int> rotated(const char* order) {
  setenv("DPTRAIN_CUDA_SIM_ORDER", order, 1);
  std::vector<int> host(64);
  for (int i = 0; i < 64; ++i) host[static_cast<std::size_t>(i)] = i + 1;
  Array<int> in(host), out(64), clear(std::vector<int>(64, 0));
  launch(nullptr, 1, 64, rotate<kBarrier>, clear.data, out.data);  // what an earlier block left in shared memory
  EXPECT_EQ(launch(nullptr, 1, 64, rotate<kBarrier>, in.data, out.data), cudaSuccess);
  std::vector<int> result = out.read();
  unsetenv("DPTRAIN_CUDA_SIM_ORDER");
  return result;
}

TEST(Kernel, AMissingBarrierShowsInReverseOrder) {
  EXPECT_EQ(rotated<true>("forward"), rotated<true>("reverse"));
  EXPECT_NE(rotated<false>("forward"), rotated<false>("reverse"));
}

__global__ void reduce(const float* x, float* sums, unsigned* ballots) {
  float sum = x[threadIdx.x];
  for (int delta = 16; delta > 0; delta /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, delta);
  double down = x[threadIdx.x];
  for (unsigned delta = 16; delta > 0; delta /= 2) down += __shfl_down_sync(0xffffffffu, down, delta);
  const double first = __shfl_sync(0xffffffffu, down, 0);
  const float before = __shfl_up_sync(0xffffffffu, x[threadIdx.x], 1);
  sums[threadIdx.x] = sum == static_cast<float>(first) ? sum + before * 1000.0f : -1.0f;
  const unsigned odd = __ballot_sync(0xffffffffu, threadIdx.x % 2);
  if (threadIdx.x % 32 == 0) ballots[threadIdx.x / 32] = odd;
}

TEST(Kernel, WarpsExchangeValues) {
  std::vector<float> x(96);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i);
  Array<float> in(x), sums(96);
  Array<unsigned> ballots(3);
  ASSERT_EQ(launch(nullptr, 1, 96, reduce, in.data, sums.data, ballots.data), cudaSuccess);
  const std::vector<float> got = sums.read();
  for (std::size_t i = 0; i < 96; ++i) {
    const std::size_t first = i / 32 * 32, before = i == first ? i : i - 1;
    EXPECT_EQ(got[i], static_cast<float>(32 * first + 496 + 1000 * before)) << i;
  }
  EXPECT_EQ(ballots.read(), std::vector<unsigned>(3, 0xaaaaaaaau));
}

__global__ void half_leaves(int* out) {
  if (threadIdx.x >= 16) return;
  __syncthreads();
  out[threadIdx.x] = __syncthreads_count(threadIdx.x % 2);
}
__global__ void lane_has_left(int* out) {
  if (threadIdx.x == 3) return;
  out[threadIdx.x] = __shfl_xor_sync(0xffffffffu, 1, 1);
}

TEST(Kernel, BarriersDoNotWaitForThreadsThatReturned) {
  Array<int> out(16);
  ASSERT_EQ(launch(nullptr, 1, 40, half_leaves, out.data), cudaSuccess);
  EXPECT_EQ(out.read(), std::vector<int>(16, 8));
}

TEST(Kernel, AnExchangeWithALaneThatReturnedIsAStickyError) {
  Array<int> out(32);
  ASSERT_EQ(launch(nullptr, 1, 32, lane_has_left, out.data), cudaSuccess);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorLaunchFailure);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorLaunchFailure);
  EXPECT_EQ(cudaDeviceReset(), cudaSuccess);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
}

__global__ void nothing() {}

TEST(Kernel, RefusesLaunchesCudaRefuses) {
  EXPECT_EQ(launch(nullptr, 1, 2000, nothing), cudaErrorInvalidConfiguration);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidConfiguration);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  EXPECT_EQ(launch(nullptr, 0, 32, nothing), cudaErrorInvalidConfiguration);
  EXPECT_EQ(launch(nullptr, dim3(1, 65536), 32, nothing), cudaErrorInvalidConfiguration);
  EXPECT_EQ(launch(nullptr, dim3(1, 65535), dim3(8, 8, 16), nothing), cudaSuccess);
  Stream other;
  cudaSetDevice(1);
  EXPECT_EQ(launch(other, 1, 32, nothing), cudaErrorInvalidResourceHandle);
  cudaSetDevice(0);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
}

template <typename F>
__global__ void map(float* x, long long n, F f) {
  for (long long i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) x[i] = f(x[i]);
}
__global__ void convert(__nv_bfloat16* b, __half* h, float x) {
  const float2 pair = __bfloat1622float2(__floats2bfloat162_rn(x, 2 * x));
  const float2 again = __half22float2(__floats2half2_rn(pair.x, pair.y));
  b[0] = __float2bfloat16_rn(again.y);
  h[0] = __float2half_rn(__bfloat162float(b[0]) + 1.0f);
}

TEST(Kernel, TakesLambdasAndHalfTypes) {
  Array<float> x(std::vector<float>(100, 3.0f));
  const float factor = 2.0f;
  const auto scale = [factor] __device__(float v) { return max(v * factor, 1); };
  ASSERT_EQ(launch(nullptr, 2, 16, map<decltype(scale)>, x.data, 100, scale), cudaSuccess);
  EXPECT_EQ(x.read(), std::vector<float>(100, 6.0f));
  Array<__nv_bfloat16> b(1);
  Array<__half> h(1);
  ASSERT_EQ(launch(nullptr, 1, 1, convert, b.data, h.data, 1.5), cudaSuccess);
  EXPECT_EQ(__bfloat162float(b.read()[0]), 3.0f);
  EXPECT_EQ(__half2float(h.read()[0]), 4.0f);
}

__global__ void accumulate(float* sum, int* most) {
  atomicAdd(sum, 1);
  atomicMax(most, static_cast<int>(threadIdx.x));
}

TEST(Kernel, Atomics) {
  Array<float> sum(std::vector<float>{0.0f});
  Array<int> most(std::vector<int>{0});
  ASSERT_EQ(launch(nullptr, 3, 100, accumulate, sum.data, most.data), cudaSuccess);
  EXPECT_EQ(sum.read()[0], 300.0f);
  EXPECT_EQ(most.read()[0], 99);
}

}  // namespace
