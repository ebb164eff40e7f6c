#include "ops/cuda_kernels.h"
#include "ops/embedding_cuda.h"
#include "ops/sort_by_id_cuda.h"

// Backward sorts the positions by id, and sums the rows of each id in that order, which depends on the ids alone. It
// sums by chunks of sorted positions, so that a table of two rows keeps the GPU as busy as one of 30,000.

namespace dptrain::ops::cuda {
namespace {

/// Sorted positions that a thread sums one after the other.
constexpr int64_t kChunk = 32;
constexpr unsigned kTileThreads = 64;

template <class T, int V>
__global__ void gather_kernel(const T* table, const int32_t* ids, int64_t positions, int64_t packs, T* y) {
  for (int64_t i = global_thread(); i < positions * packs; i += global_threads())
    Pack<T, V>::load(table + (ids[i / packs] * packs + i % packs) * V).store(y + i * V);
}

/// The sorted positions, in which equal ids form runs, and room for the sums of runs that aren't whole in a chunk.
struct Runs {
  const int32_t *order, *sorted;
  int64_t count, width;
  int32_t untrained;  ///< an id whose rows aren't added
  float* pieces;  ///< [chunks, 2, width]: sums of the run that began in an earlier chunk, and of the one that goes on

  __device__ int64_t end(int64_t chunk) const {
    const int64_t end = (chunk + 1) * kChunk;
    return end < count ? end : count;
  }
  __device__ bool run_ends_before(int64_t i) const { return i == count || sorted[i] != sorted[i - 1]; }
  __device__ bool run_began_before(int64_t i) const { return i > 0 && sorted[i] == sorted[i - 1]; }
};

/// A thread sums V columns of a chunk. The sum of a run that is whole in the chunk is added to the table. The sum of a
/// piece of a run goes to `pieces`.
template <class T, int V>
__global__ void sum_runs_kernel(Runs r, const T* incoming, float* table) {
  const int64_t column = (int64_t{blockIdx.y} * blockDim.x + threadIdx.x) * V, chunk = blockIdx.x;
  if (column >= r.width) return;
  float own[V] = {};
  int64_t first = chunk * kChunk;
  for (int64_t i = first; i < r.end(chunk); ++i) {
    const auto row = Pack<T, V>::load(incoming + r.order[i] * r.width + column);
    if (r.sorted[i] != r.untrained)
      for (int v = 0; v < V; ++v) own[v] += row.get(v);
    const bool ends = r.run_ends_before(i + 1);
    if (!ends && i + 1 < r.end(chunk)) continue;
    const bool began_before = first == chunk * kChunk && r.run_began_before(first);
    float* piece = r.pieces + (2 * chunk + (began_before ? 0 : 1)) * r.width + column;
    float* row_of_table = table + r.sorted[i] * r.width + column;
    for (int v = 0; v < V; ++v) {
      if (ends && !began_before)
        row_of_table[v] += own[v];
      else
        piece[v] = own[v];
      own[v] = 0;
    }
    first = i + 1;
  }
}

/// A thread adds up one column of a run's pieces, if the run begins in the thread's chunk and goes on after it.
__global__ void fold_runs_kernel(Runs r, float* table) {
  const int64_t column = int64_t{blockIdx.y} * blockDim.x + threadIdx.x, chunk = blockIdx.x;
  const int64_t begin = chunk * kChunk, end = r.end(chunk);
  if (column >= r.width || r.run_ends_before(end)) return;
  const int32_t id = r.sorted[end];
  if (r.sorted[begin] == id && r.run_began_before(begin)) return;
  // Finds the chunk in which the run ends. A run may be half of all positions, for example that of a segment's id.
  int64_t last = chunk + 1;
  for (int64_t after = gridDim.x - 1; last < after;) {
    const int64_t middle = (last + after) / 2;
    if (r.end(middle) < r.count && r.sorted[r.end(middle)] == id)
      last = middle + 1;
    else
      after = middle;
  }
  double sum = r.pieces[(2 * chunk + 1) * r.width + column];
#pragma unroll 8
  for (int64_t next = chunk + 1; next <= last; ++next) sum += r.pieces[2 * next * r.width + column];
  table[id * r.width + column] += static_cast<float>(sum);
}

/// The grid has its chunks along x, where it may have more blocks.
dim3 tiles(int64_t threads, int64_t chunks) {
  return dim3(static_cast<unsigned>(chunks), static_cast<unsigned>((threads + kTileThreads - 1) / kTileThreads));
}

template <class T, int V>
void gather(const Tensor& table, const Tensor& ids, const Tensor& y) {
  const int64_t packs = table.shape()[1] / V;
  launch("embedding", y, blocks_for(y, ids.elements() * packs), kThreads, gather_kernel<T, V>, table.data<T>(),
         ids.data<int32_t>(), ids.elements(), packs, y.data<T>());
}

}  // namespace

void embedding_forward(const Tensor& table, const Tensor& ids, const Tensor& y) {
  with_element_type(table, [&]<class T>(ElementType<T>) {
    if (in_packs(table.shape()[1], kPackOf<T>, {table.raw(), y.raw()}))
      gather<T, kPackOf<T>>(table, ids, y);
    else
      gather<T, 1>(table, ids, y);
  });
}

void add_rows(const Tensor& ids, const Tensor& incoming, const Tensor& table, int32_t untrained) {
  const int64_t count = ids.elements(), width = table.shape()[1], chunks = (count + kChunk - 1) / kChunk;
  const SortedPositions by_id = sort_by_id(ids, table.shape()[0]);
  const Tensor pieces = Tensor::empty(ids.device(), {chunks, 2, width}, {.purpose = MemoryPurpose::workspace});
  const Runs runs{.order = by_id.order.data<int32_t>(),
                  .sorted = by_id.sorted.data<int32_t>(),
                  .count = count,
                  .width = width,
                  .untrained = untrained,
                  .pieces = pieces.data<float>()};
  with_element_type(incoming, [&]<class T>(ElementType<T>) {
    if (in_packs(width, kPackOf<T>, {incoming.raw()}))
      launch("sum runs", table, tiles(width / kPackOf<T>, chunks), kTileThreads, sum_runs_kernel<T, kPackOf<T>>, runs,
             incoming.data<T>(), table.data<float>());
    else
      launch("sum runs", table, tiles(width, chunks), kTileThreads, sum_runs_kernel<T, 1>, runs, incoming.data<T>(),
             table.data<float>());
  });
  launch("fold runs", table, tiles(width, chunks), kTileThreads, fold_runs_kernel, runs, table.data<float>());
}

}  // namespace dptrain::ops::cuda
