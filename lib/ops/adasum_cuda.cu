#include "ops/adasum_cuda.h"
#include "ops/adasum_factors.h"
#include "ops/layerwise_cuda.h"

// Bytes per element: adasum_squares reads 16 (both buffers, once for the sums and once for the differences), adasum
// reads 8 and writes 4.

namespace dptrain::ops::cuda {
namespace {

/// Row 0 of the grid takes the sums, row 1 the differences. If a block took both in turn, it would need more registers
/// than there are for so many threads.
__global__ void adasum_squares_kernel(const int64_t* chunks, const double* norms, const float* first,
                                      const float* second, int64_t* runs) {
  const ChunkOfBlock chunk(chunks);
  __shared__ float of_first, of_second;
  if (threadIdx.x == 0) {
    const AdasumScales scales = SquaredNorms::of(norms, chunk.tensor).scales();
    of_first = static_cast<float>(scales.first);
    of_second = static_cast<float>(blockIdx.y == 0 ? scales.second : -scales.second);
  }
  __syncthreads();
  const float first_scale = of_first, second_scale = of_second;
  float own[kEach];
#pragma unroll
  for (int k = 0; k < kChunkPacks; ++k) {
    Pack<float, kChunkPack> a = {}, b = {};
    if (chunk.has(k)) {
      const int64_t at = chunk.begin + ChunkOfBlock::offset(k);
      a = Pack<float, kChunkPack>::load(first + at);
      b = Pack<float, kChunkPack>::load(second + at);
    }
#pragma unroll
    for (int i = 0; i < kChunkPack; ++i)
      own[k * kChunkPack + i] = __fadd_rn(first_scale * a.at[i], second_scale * b.at[i]);
  }
  write_square_run(own, runs + (2 * int64_t{blockIdx.x} + blockIdx.y) * kSquareSumNumbers);
}

__global__ void adasum_kernel(const int64_t* chunks, const double* norms, const double* squares, float* first,
                              const float* second) {
  const ChunkOfBlock chunk(chunks);
  __shared__ float of_first, of_second;
  if (threadIdx.x == 0) {
    const AdasumFactors factors =
        adasum_factors(SquaredNorms::of(norms, chunk.tensor), SquaredNorms::of(squares, chunk.tensor));
    of_first = factors.first;
    of_second = factors.second;
  }
  __syncthreads();
  const float first_factor = of_first, second_factor = of_second;
  for (int k = 0; k < kChunkPacks && chunk.has(k); ++k) {
    const int64_t at = chunk.begin + ChunkOfBlock::offset(k);
    auto a = Pack<float, kChunkPack>::load(first + at);
    const auto b = Pack<float, kChunkPack>::load(second + at);
#pragma unroll
    for (int i = 0; i < kChunkPack; ++i)
      a.at[i] = __fadd_rn(__fmul_rn(first_factor, a.at[i]), __fmul_rn(second_factor, b.at[i]));
    a.store(first + at);
  }
}

}  // namespace

void adasum_squares(const Tensor& first, const Tensor& second, const TensorTable& table, const Tensor& norms,
                    const Tensor& squares) {
  if (table.count() == 0) return;
  const Tensor runs = runs_of_chunks(table);
  launch("adasum_squares", first, dim3(static_cast<unsigned>(table.count()), 2), kThreads, adasum_squares_kernel,
         table.chunks.data<int64_t>(), norms.data<double>(), first.data<float>(), second.data<float>(),
         runs.data<int64_t>());
  add_tensor_runs(table, runs, squares);
}

void adasum(const Tensor& first, const Tensor& second, const TensorTable& table, const Tensor& norms,
            const Tensor& squares) {
  if (table.count() == 0) return;
  launch("adasum", first, static_cast<unsigned>(table.count()), kThreads, adasum_kernel, table.chunks.data<int64_t>(),
         norms.data<double>(), squares.data<double>(), first.data<float>(), second.data<float>());
}

}  // namespace dptrain::ops::cuda
