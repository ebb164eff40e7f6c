#include "ops/block_sum_cuda.h"
#include "ops/power_iteration_cuda.h"
#include "ops/vanished_column.h"

// One block computes all columns: they are few, and each needs those before it.

namespace dptrain::ops::cuda {
namespace {

/// The sum of a block's numbers, in every thread.
__device__ double sum_for_all(double own) {
  __shared__ double total;
  const double sum = sum_of_block(own);
  if (threadIdx.x == 0) total = sum;
  __syncthreads();
  const double shared_sum = total;
  __syncthreads();
  return shared_sum;
}

__device__ double product(const double* a, const double* b, int64_t count) {
  double own = 0;
  for (int64_t i = threadIdx.x; i < count; i += kThreads) own += a[i] * b[i];
  return sum_for_all(own);
}

/// `columns`: room for the matrix in double, column by column. A thread reads what it has written itself.
__global__ void orthogonalize_kernel(float* matrix, int64_t rows, int64_t count, double* columns) {
  for (int64_t c = 0; c < count; ++c) {
    double* column = columns + c * rows;
    for (int64_t r = threadIdx.x; r < rows; r += kThreads) column[r] = matrix[r * count + c];
    const double before = product(column, column, rows);
    for (int64_t k = 0; k < c; ++k) {
      const double* other = columns + k * rows;
      const double share = product(column, other, rows);
      for (int64_t r = threadIdx.x; r < rows; r += kThreads) column[r] -= share * other[r];
    }
    const double after = product(column, column, rows);
    const double factor = !isfinite(before) ? before - before : has_vanished(before, after) ? 0 : 1 / sqrt(after);
    for (int64_t r = threadIdx.x; r < rows; r += kThreads) {
      column[r] *= factor;
      matrix[r * count + c] = static_cast<float>(column[r]);
    }
  }
}

/// A block a row.
__global__ void renew_kernel(float* directions, const float* found, int64_t length) {
  const float* from = found + blockIdx.x * length;
  double not_finite = 0, not_zero = 0;
  for (int64_t i = threadIdx.x; i < length; i += kThreads) {
    not_finite += isfinite(from[i]) ? 0 : 1;
    not_zero += from[i] != 0.f ? 1 : 0;
  }
  const double all_not_finite = sum_for_all(not_finite), all_not_zero = sum_for_all(not_zero);
  if (all_not_finite > 0 || all_not_zero == 0) return;
  for (int64_t i = threadIdx.x; i < length; i += kThreads) directions[blockIdx.x * length + i] = from[i];
}

}  // namespace

void orthogonalize_columns(const Tensor& matrix) {
  const int64_t rows = matrix.shape()[0], count = matrix.shape()[1];
  const Tensor columns =
      Tensor::empty(matrix.device(), {count, rows}, {.dtype = DType::f64, .purpose = MemoryPurpose::workspace});
  launch("orthogonalize", matrix, 1, kThreads, orthogonalize_kernel, matrix.data<float>(), rows, count,
         columns.data<double>());
}

void renew_directions(const Tensor& directions, const Tensor& found) {
  launch("renew_directions", found, static_cast<unsigned>(found.shape()[0]), kThreads, renew_kernel,
         directions.data<float>(), found.data<float>(), found.shape()[1]);
}

}  // namespace dptrain::ops::cuda
