#include "ops/cuda_kernels.h"
#include "ops/reorder_cuda.h"

namespace dptrain::ops::cuda {
namespace {

constexpr int kTile = 32;
constexpr int kRows = 8;

/// Transposes `batch` matrices of rows x columns by tiles in shared memory, so that reads and writes are both
/// coalesced. The tile has one column more than it needs, so that the elements of a column are in 32 different banks.
template <class F, class T>
__global__ void transpose_kernel(const F* from, T* to, int64_t batch, int64_t rows, int64_t columns) {
  __shared__ float tile[kTile][kTile + 1];
  for (int64_t matrix = blockIdx.z; matrix < batch; matrix += gridDim.z) {
    const F* in = from + matrix * rows * columns;
    T* out = to + matrix * rows * columns;
    const int64_t row0 = int64_t{blockIdx.y} * kTile, column0 = int64_t{blockIdx.x} * kTile;
    for (int r = threadIdx.y; r < kTile; r += kRows)
      if (row0 + r < rows && column0 + threadIdx.x < columns)
        tile[r][threadIdx.x] = to_float(in[(row0 + r) * columns + column0 + threadIdx.x]);
    __syncthreads();
    for (int c = threadIdx.y; c < kTile; c += kRows)
      if (column0 + c < columns && row0 + threadIdx.x < rows)
        out[(column0 + c) * rows + row0 + threadIdx.x] = from_float<T>(tile[threadIdx.x][c]);
    __syncthreads();
  }
}

template <class F, class T>
__global__ void convert_kernel(const F* from, T* to, int64_t count) {
  for (int64_t i = global_thread(); i < count; i += global_threads()) to[i] = from_float<T>(to_float(from[i]));
}

template <class F, class T>
void reorder_as(const Tensor& from, const Tensor& to) {
  const Shape& shape = from.shape();
  // With one channel or one position, both layouts are the same in memory.
  const bool alike = from.layout() == to.layout() || shape[1] == 1 || shape[2] * shape[3] == 1;
  if (alike) {
    launch("convert", to, blocks_for(to, to.elements()), kThreads, convert_kernel<F, T>, from.data<F>(), to.data<T>(),
           to.elements());
    return;
  }
  const int64_t channels = shape[1], positions = shape[2] * shape[3];
  const bool to_nhwc = to.layout() == Layout::nhwc;
  const int64_t rows = to_nhwc ? channels : positions, columns = to_nhwc ? positions : channels;
  const auto tiles = [](int64_t size) { return static_cast<unsigned>((size + kTile - 1) / kTile); };
  const dim3 grid(tiles(columns), tiles(rows), static_cast<unsigned>(shape[0] < 65535 ? shape[0] : 65535));
  launch("transpose", to, grid, dim3(kTile, kRows), transpose_kernel<F, T>, from.data<F>(), to.data<T>(), shape[0],
         rows, columns);
}

}  // namespace

void reorder_into(const Tensor& from, const Tensor& to) {
  with_element_type(from, [&]<class F>(ElementType<F>) {
    with_element_type(to, [&]<class T>(ElementType<T>) { reorder_as<F, T>(from, to); });
  });
}

}  // namespace dptrain::ops::cuda
