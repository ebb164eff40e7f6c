#include <algorithm>

#include "ops/block_sum_cuda.h"
#include "ops/power_iteration_cuda.h"
#include "ops/vanished_column.h"

// One block computes all columns of a matrix, as they are few and each needs those before it. A launch has as many
// blocks as there are matrices. For R columns a block makes R (R + 3) / 2 sums one after the other, which take some
// microseconds each. The blocks of ResNet-18's 20 weights make theirs side by side.

namespace dptrain::ops::cuda {
namespace {

/// Returns the sum of a block's numbers to every thread.
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

/// The most matrices of a launch, whose descriptions must fit in a kernel's 4 KB of parameters.
constexpr int kMatrices = 64;

struct Columns {
  float* matrix;
  double* room;  ///< for the matrix in double, column by column
  int64_t rows;
  int64_t count;
};
struct ColumnsOfAll {
  Columns of[kMatrices];
};

/// A block takes a matrix. A thread reads nothing from `room` that another thread has written.
__global__ void orthogonalize_kernel(const __grid_constant__ ColumnsOfAll all) {
  float* const matrix = all.of[blockIdx.x].matrix;
  double* const columns = all.of[blockIdx.x].room;
  const int64_t rows = all.of[blockIdx.x].rows, count = all.of[blockIdx.x].count;
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

struct Rows {
  float* directions;
  const float* found;
  int64_t rows;
  int64_t length;
};
struct RowsOfAll {
  Rows of[kMatrices];
};

/// A block takes a row of the matrix blockIdx.y.
__global__ void renew_kernel(const __grid_constant__ RowsOfAll all) {
  const int64_t length = all.of[blockIdx.y].length, row = blockIdx.x;
  if (row >= all.of[blockIdx.y].rows) return;
  const float* const from = all.of[blockIdx.y].found + row * length;
  float* const to = all.of[blockIdx.y].directions + row * length;
  double not_finite = 0, not_zero = 0;
  for (int64_t i = threadIdx.x; i < length; i += kThreads) {
    not_finite += isfinite(from[i]) ? 0 : 1;
    not_zero += from[i] != 0.f ? 1 : 0;
  }
  const double all_not_finite = sum_for_all(not_finite), all_not_zero = sum_for_all(not_zero);
  if (all_not_finite > 0 || all_not_zero == 0) return;
  for (int64_t i = threadIdx.x; i < length; i += kThreads) to[i] = from[i];
}

/// Calls give(first, count) for each launch, which takes `count` matrices from `first` on.
template <class Give>
void by_launches(size_t matrices, const Give& give) {
  for (size_t first = 0; first < matrices; first += kMatrices)
    give(first, std::min<size_t>(kMatrices, matrices - first));
}

}  // namespace

void orthogonalize_columns(std::span<const Tensor> matrices) {
  by_launches(matrices.size(), [&](size_t first, size_t count) {
    int64_t elements = 0;
    for (const Tensor& matrix : matrices.subspan(first, count)) elements += matrix.elements();
    const Tensor room = Tensor::empty(matrices.front().device(), {elements},
                                      {.dtype = DType::f64, .purpose = MemoryPurpose::workspace});
    ColumnsOfAll all{};
    double* next = room.data<double>();
    for (size_t i = 0; i < count; ++i) {
      const Tensor& matrix = matrices[first + i];
      all.of[i] = {matrix.data<float>(), next, matrix.shape()[0], matrix.shape()[1]};
      next += matrix.elements();
    }
    launch("orthogonalize", room, static_cast<unsigned>(count), kThreads, orthogonalize_kernel, all);
  });
}

void renew_directions(std::span<const Tensor> directions, std::span<const Tensor> found) {
  by_launches(found.size(), [&](size_t first, size_t count) {
    RowsOfAll all{};
    int64_t most = 0;
    for (size_t i = 0; i < count; ++i) {
      const Tensor& own = found[first + i];
      all.of[i] = {directions[first + i].data<float>(), own.data<float>(), own.shape()[0], own.shape()[1]};
      most = std::max(most, own.shape()[0]);
    }
    launch("renew_directions", found.front(), dim3(static_cast<unsigned>(most), static_cast<unsigned>(count)), kThreads,
           renew_kernel, all);
  });
}

}  // namespace dptrain::ops::cuda
