#include "ops/layerwise_cuda.h"

namespace dptrain::ops::cuda {
namespace {

constexpr int kRowsOfTensor = 16;

/// A launch has two blocks for each tensor, one for each of its two sums.
__global__ void __launch_bounds__(kRowsOfTensor* kSquareSumNumbers)
    add_tensor_runs_kernel(const int64_t* runs, const int64_t* of_tensors, const int32_t* skip, double* squares) {
  if (skip != nullptr && *skip != 0) return;
  const int64_t *own = of_tensors + blockIdx.x / 2 * 2, which = blockIdx.x % 2;
  if (own[0] == own[1]) return;
  add_up_runs<kRowsOfTensor>(runs + which * kSquareSumNumbers, own[0], own[1], 2,
                             squares + int64_t{blockIdx.x} * kSquareSumNumbers);
}

}  // namespace

Tensor runs_of_chunks(const TensorTable& table) {
  return Tensor::empty(table.chunks.device(), {table.count(), 2, kSquareSumNumbers},
                       {.dtype = DType::i64, .purpose = MemoryPurpose::workspace});
}

void add_tensor_runs(const TensorTable& table, const Tensor& runs, const Tensor& squares, const Tensor& skip) {
  launch("add_tensor_runs", squares, static_cast<unsigned>(2 * table.tensors), kRowsOfTensor * kSquareSumNumbers,
         add_tensor_runs_kernel, runs.data<int64_t>(), table.of_tensors.data<int64_t>(), data_or_null<int32_t>(skip),
         squares.data<double>());
}

}  // namespace dptrain::ops::cuda
