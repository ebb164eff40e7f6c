#include "ops/square_run_cuda.h"
#include "ops/square_sum_cuda.h"

// Reads 4 bytes per value.

namespace dptrain::ops::cuda {
namespace {

/// Writes kSquareSumNumbers numbers of each block to `runs`.
__global__ void squares_kernel(const float* values, int64_t count, int64_t* runs) {
  const int64_t begin = blockIdx.x * kRun + threadIdx.x;
  float own[kEach];
#pragma unroll
  for (int k = 0; k < kEach; ++k) {
    const int64_t i = begin + k * kThreads;
    own[k] = i < count ? values[i] : 0.f;
  }
  write_square_run(own, runs + blockIdx.x * kSquareSumNumbers);
}

constexpr int kRowsOfAll = 64;

/// A launch has one block.
__global__ void __launch_bounds__(kRowsOfAll* kSquareSumNumbers)
    add_runs_kernel(const int64_t* runs, int64_t count, double* sum) {
  add_up_runs<kRowsOfAll>(runs, 0, count, 1, sum);
}

}  // namespace

void add_squares(const Tensor& values, const Tensor& sum) {
  const int64_t count = values.storage_elements(), blocks = (count + kRun - 1) / kRun;
  if (blocks == 0) return;
  const Tensor runs = Tensor::empty(values.device(), {blocks * kSquareSumNumbers},
                                    {.dtype = DType::i64, .purpose = MemoryPurpose::workspace});
  launch("squares", values, static_cast<unsigned>(blocks), kThreads, squares_kernel, values.data<float>(), count,
         runs.data<int64_t>());
  launch("add_runs", values, 1, kRowsOfAll * kSquareSumNumbers, add_runs_kernel, runs.data<int64_t>(), blocks,
         sum.data<double>());
}

}  // namespace dptrain::ops::cuda
