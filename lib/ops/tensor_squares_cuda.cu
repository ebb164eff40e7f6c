#include "ops/layerwise_cuda.h"
#include "ops/tensor_squares_cuda.h"

// Two launches. The first reads 8 bytes for each element of a buffer; the second reads 2 x 128 bytes for each 8192.

namespace dptrain::ops::cuda {
namespace {

/// Row 0 of the grid takes the first buffer, row 1 the second. If a block took both in turn, it would need three times
/// the registers.
__global__ void tensor_squares_kernel(const int64_t* chunks, const float* first, const float* second, int64_t* runs) {
  const int64_t run = 2 * int64_t{blockIdx.x} + blockIdx.y;
  write_square_run_of(ChunkOfBlock(chunks), blockIdx.y == 0 ? first : second, runs + run * kSquareSumNumbers);
}

}  // namespace

void tensor_squares(const Tensor& first, const Tensor& second, const TensorTable& table, const Tensor& squares) {
  if (table.count() == 0) return;
  const Tensor runs = runs_of_chunks(table);
  launch("tensor_squares", first, dim3(static_cast<unsigned>(table.count()), 2), kThreads, tensor_squares_kernel,
         table.chunks.data<int64_t>(), first.data<float>(), second.data<float>(), runs.data<int64_t>());
  add_tensor_runs(table, runs, squares);
}

}  // namespace dptrain::ops::cuda
